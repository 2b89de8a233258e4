"""Input files: which exist, and what their metadata says."""
