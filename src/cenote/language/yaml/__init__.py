"""YAML with the line and column of every key and value."""
