"""Arrays: views of any library's arrays, and our own."""
