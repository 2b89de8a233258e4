"""The engine: events in, commands out. Pure: no clock, no I/O, no threads, no randomness."""
