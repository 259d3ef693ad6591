"""Launches: reading arguments, choosing or compiling a variant, checking and starting the grid."""
