"""Environments of pixi, packed."""

from cenote.execution.environments.packed_pixi.environment import PackedPixi

__all__ = ["PackedPixi"]
