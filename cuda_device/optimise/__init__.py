"""Loop and address optimisations on device IR, each with a measured gain."""
