"""Compiled stages: what neighbouring stages do as one typed program, and that program as machine code."""
