"""Strategies whose workers are leased from a service."""
