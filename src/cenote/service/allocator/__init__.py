"""Decide who gets which slot: events in, commands out."""
