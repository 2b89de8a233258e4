"""Decide what follows from the state: each decision is recorded, folded in, and then carried out."""
