"""Workflows as FAST-HEP's users write them, with data of their shape and their numbers calculated by hand."""
