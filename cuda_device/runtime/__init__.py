"""What happens at run time: arguments, streams, memory, launches."""
