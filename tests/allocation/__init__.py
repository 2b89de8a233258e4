"""The allocator of the service under simulated users, workers and restarts, one seed each."""
