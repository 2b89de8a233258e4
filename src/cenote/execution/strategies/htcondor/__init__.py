"""The HTCondor strategy."""

from cenote.execution.strategies.htcondor.strategy import HTCondor

__all__ = ["HTCondor"]
