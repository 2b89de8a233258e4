"""What people ask of a run, folded from its events: how far, how fast, where, what went wrong."""
