"""Modifiers: they change how a stage is executed, not what it computes. One file each."""
