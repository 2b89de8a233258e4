"""The operation `hep.hist`."""

from cenote.analysis.operations.hep.hist.operation import Hist

__all__ = ["Hist"]
