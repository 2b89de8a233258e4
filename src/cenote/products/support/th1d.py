"""Lay out a histogram of one axis as ROOT's TH1D, as uproot does, without importing uproot for it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.lean_imports import later
from cenote.products.support.fill_sums import statistics
from cenote.products.support.root_file import RootObject, text

if TYPE_CHECKING:
    import hist
else:
    hist = later("hist")

_ATT_AXIS = struct.pack(">ihhhfffffhh", 510, 1, 1, 42, 0.005, 0.035, 0.03, 1.0, 0.035, 1, 42)
_LINE, _FILL, _MARKER = struct.pack(">hhh", 602, 1, 1), struct.pack(">hh", 0, 1001), struct.pack(">hhf", 1, 1, 1.0)
_UNSET = -1111.0
"""ROOT's minimum and maximum of a histogram where nobody has set one."""
_NO_OBJECT = bytes(4)


def th1d(name: str, histogram: Any) -> RootObject | None:  # Any: a hist.Hist, which publishes no types
    """The histogram under a name; None where it is not plain: then uproot knows how."""
    if "/" in name or histogram.ndim != 1 or histogram.storage_type not in (hist.storage.Weight, hist.storage.Double):
        return None
    axis = histogram.axes[0]
    regular = type(axis) is hist.axis.Regular and getattr(axis, "transform", None) is None
    if not (regular or type(axis) is hist.axis.Variable) or axis.traits.circular or axis.traits.growth:
        return None
    if not (axis.traits.underflow and axis.traits.overflow):
        return None
    values = np.asarray(histogram.values(flow=True), ">f8")
    content = _th1(name, histogram, axis, regular=regular) + _array(values)
    found = RootObject("TH1D", name, _versioned(3, content))
    return found if found.fits else None


def _th1(name: str, histogram: Any, axis: Any, *, regular: bool) -> bytes:
    edges, known = axis.edges, statistics(histogram)
    weighted = histogram.storage_type is hist.storage.Weight
    return _versioned(
        8,
        _named(name, histogram.name or "", bits=0x0300_0008)
        + _versioned(2, _LINE)
        + _versioned(2, _FILL)
        + _versioned(2, _MARKER)
        + struct.pack(">i", len(edges) + 1)
        + _axis("xaxis", axis.label, edges, regular=regular)
        + _axis("yaxis", "", np.array([0.0, 1.0]), regular=True)
        + _axis("zaxis", "", np.array([0.0, 1.0]), regular=True)
        + struct.pack(">hh5d3d", 0, 1000, known.entries, *known.sums, _UNSET, _UNSET, 0.0)
        + _array(np.zeros(0))
        + _array(histogram.variances(flow=True) if weighted else np.zeros(0))
        + text("")
        + _versioned(5, _object(0x0301_0000) + text("") + struct.pack(">i", 0))
        + struct.pack(">iBii", 0, 0, 0, 2),
    )


def _axis(name: str, title: str, edges: Any, *, regular: bool) -> bytes:
    return _versioned(
        10,
        _named(name, title, bits=0x0300_0000)
        + _versioned(4, _ATT_AXIS)
        + struct.pack(">idd", len(edges) - 1, edges[0], edges[-1])
        + _array(np.zeros(0) if regular else edges)
        + struct.pack(">iiHB", 0, 0, 0, 0)
        + text("")
        + _NO_OBJECT
        + _NO_OBJECT,
    )


def _named(name: str, title: str, *, bits: int) -> bytes:
    return _versioned(1, _object(bits) + text(name) + text(title))


def _object(bits: int) -> bytes:
    return struct.pack(">hII", 1, 0, bits)


def _versioned(version: int, content: bytes) -> bytes:
    """With how long it is, and of which version of its class."""
    return struct.pack(">Ih", 0x4000_0000 | (len(content) + 2), version) + content


def _array(values: Any) -> bytes:
    return struct.pack(">i", len(values)) + np.asarray(values, ">f8").tobytes()
