"""Environments of pixi, packed."""

from cenote.environments.packed_pixi.environment import PackedPixi

__all__ = ["PackedPixi"]
