"""The process of a worker: its start, output, memory, scratch folder and end."""
