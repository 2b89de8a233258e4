"""Placement: which pools may run a task, in which order, or the reason why none can."""
