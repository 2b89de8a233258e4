"""Names and places of what a run leaves."""
