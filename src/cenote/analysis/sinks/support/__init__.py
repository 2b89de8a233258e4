"""What several sinks share."""
