"""The inference rules of each kind of value: items, attributes, iteration and operators."""
