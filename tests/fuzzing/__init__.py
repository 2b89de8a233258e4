"""Feed the readers of what people write with whatever bytes: they give a value or an error with a position."""
