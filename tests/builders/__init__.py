"""Builders for tests: plans without files, stories for the engine, graphs of stages, ROOT files."""
