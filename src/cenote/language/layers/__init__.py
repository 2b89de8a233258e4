"""Layers of a workflow: built-in values, site, profiles, the file, the command line."""
