"""Count what the events of a run say: tasks, stages, pools."""
