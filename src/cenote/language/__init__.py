"""The language: from a YAML file to a checked, frozen Workflow."""
