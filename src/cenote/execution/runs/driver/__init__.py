"""Reach the driver of a run, and find what one left behind."""
