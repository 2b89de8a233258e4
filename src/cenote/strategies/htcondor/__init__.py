"""The HTCondor strategy."""

from cenote.strategies.htcondor.strategy import HTCondor

__all__ = ["HTCondor"]
