"""What several modifiers share."""
