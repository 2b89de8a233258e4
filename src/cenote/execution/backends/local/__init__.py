"""The local backend: processes of this machine."""

from cenote.execution.backends.local.backend import LocalBackend

__all__ = ["LocalBackend"]
