"""Analyses to start from: every folder here is one, complete with a script that makes its data."""
