"""Expressions: column arithmetic as physicists write it, parsed to a tree of known parts and evaluated on arrays."""
