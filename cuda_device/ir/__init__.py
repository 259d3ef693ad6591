"""The typed intermediate representation, at three levels: python, typed and device."""
