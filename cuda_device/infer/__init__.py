"""Type inference by abstract interpretation: python-level IR and what is known of the arguments → typed IR."""
