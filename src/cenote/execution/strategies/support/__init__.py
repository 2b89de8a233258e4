"""What several strategies share, also those of other packages."""
