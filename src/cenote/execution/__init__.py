"""Doing what was planned: backends, strategies and environments of workers, the driver's loop, runs on disk."""
