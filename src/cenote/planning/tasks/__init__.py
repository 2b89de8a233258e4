"""What there is to do: segments of stages, partitions of files, tasks."""
