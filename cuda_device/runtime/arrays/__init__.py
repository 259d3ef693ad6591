"""Arrays: views of the arrays of other libraries, and the package's own arrays."""
