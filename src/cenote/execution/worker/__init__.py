"""The worker: runs tasks. Light, because it starts on every node."""
