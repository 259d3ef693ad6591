"""Type inference by abstract interpretation: turns IR of the python level, and facts about the arguments, into typed IR."""
