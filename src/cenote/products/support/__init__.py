"""What several products share."""
