"""The Dask backend: one scheduler of ours, several kinds of workers."""

from cenote.execution.backends.dask.backend import Dask

__all__ = ["Dask"]
