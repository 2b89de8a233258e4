"""Show runs that the service drives while they run, and afterwards."""
