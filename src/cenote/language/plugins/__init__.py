"""Plugins: what kinds there are, how their settings are declared, and where they are found."""
