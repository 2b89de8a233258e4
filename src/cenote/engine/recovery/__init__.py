"""Rules for tasks that fail, wait or lose their workers."""
