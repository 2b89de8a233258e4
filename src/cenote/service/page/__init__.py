"""The page of the service: what a browser gets."""
