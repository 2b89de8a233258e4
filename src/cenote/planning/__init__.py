"""The plan: which columns, partitions, segments and tasks, in a fixed order. Pure but for reading metadata."""
