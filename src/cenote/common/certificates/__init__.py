"""The certificates of a run: who may talk to its driver and workers."""
