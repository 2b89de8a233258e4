"""Probes: what a worker of each pool would find on its node."""
