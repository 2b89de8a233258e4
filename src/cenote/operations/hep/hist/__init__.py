"""The operation `hep.hist`."""

from cenote.operations.hep.hist.operation import Hist

__all__ = ["Hist"]
