"""Backends: how tasks get executed. One file each."""
