"""Define how a call on a pool can fail that did not raise anything itself."""

from __future__ import annotations


class ProcessEndedError(RuntimeError):
    """A call ended its process, or its process was ended: by a signal, by `os._exit`, with its worker."""


class NotPicklableError(TypeError):
    """A function, an argument or a result that cannot travel."""


class RemoteError(RuntimeError):
    """Stands for an exception of a call that cannot be put together again here; has its words."""


class RemoteTraceback(Exception):  # noqa: N818  # the cause of an exception, and none that is raised
    """The traceback of an exception where it was raised, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"
