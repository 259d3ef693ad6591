"""One typed intermediate representation with three levels: python, typed, device."""
