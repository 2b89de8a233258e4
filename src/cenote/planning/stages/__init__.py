"""Stages made concrete: their operations, columns and pictures."""
