"""The runtime: carries out what the engine decides, and keeps what happened."""
