"""Fold events into the state: what happened, and what was decided."""
