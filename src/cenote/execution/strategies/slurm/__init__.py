"""The Slurm strategy."""

from cenote.execution.strategies.slurm.strategy import Slurm

__all__ = ["Slurm"]
