"""Renderers: how products become pictures and tables. One file each."""
