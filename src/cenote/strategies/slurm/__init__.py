"""The Slurm strategy."""

from cenote.strategies.slurm.strategy import Slurm

__all__ = ["Slurm"]
