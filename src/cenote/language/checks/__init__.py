"""Checks of a merged document: everything that is wrong, at once."""
