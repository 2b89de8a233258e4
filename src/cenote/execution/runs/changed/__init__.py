"""Words for what changed between two runs: pure functions on plain data."""
