"""Sinks: where events are written to. One file each."""
