"""What probes found on the nodes of pools, kept for plans."""
