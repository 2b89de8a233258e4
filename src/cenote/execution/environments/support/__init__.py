"""What several environments share, also those of other packages."""
