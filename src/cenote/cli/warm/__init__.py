"""Commands that are run by a process of the service, which has its imports already."""
