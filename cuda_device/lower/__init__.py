"""Lowering: typed IR → device IR, where values are numbers and addresses and operations are a machine's."""
