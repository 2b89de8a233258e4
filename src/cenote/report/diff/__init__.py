"""Compare two runs: what went into them, and the numbers that came out."""
