"""The local strategy."""

from cenote.execution.strategies.local.strategy import LocalStrategy

__all__ = ["LocalStrategy"]
