"""The local strategy."""

from cenote.strategies.local.strategy import LocalStrategy

__all__ = ["LocalStrategy"]
