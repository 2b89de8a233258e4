"""Cenote runs one scientific workflow over several pools of workers."""

__version__ = "0.1.0"
