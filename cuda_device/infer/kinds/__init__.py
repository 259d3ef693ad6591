"""Typing rules of the kinds of values: what each supports of items, attributes, iteration and operators."""
