"""Define what says that something has no compiled form."""

from __future__ import annotations


class NotCompiledError(Exception):
    """A stage, or these columns, have no compiled form: the ordinary way computes them. The words say why."""
