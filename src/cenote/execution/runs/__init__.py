"""Runs on disk: their folder, journal and summary, read while they are in progress or long after."""
