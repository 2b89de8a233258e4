"""Strategies: how workers come to exist. One file each."""
