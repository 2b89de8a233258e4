"""Pack software into archives that nodes unpack: deterministic, kept by content, relocatable."""
