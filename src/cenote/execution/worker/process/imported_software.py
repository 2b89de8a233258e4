"""Notice when the software that a long-lived process has imported is no longer what is installed."""

from __future__ import annotations

import os
import sys
import time

_OURS = "cenote"
_PACKAGES = ("site-packages", "dist-packages")
"""Folders that change when something is installed or removed."""
_LOOK_EVERY = 1.0
"""Seconds: who starts many processes does not look for each of them."""


class ImportedSoftware:
    """As it is when this is made: packages by their folders, this one by its files, which developers change."""

    def __init__(self) -> None:
        names = [name for name in sys.modules if name.partition(".")[0] == _OURS]
        files = [getattr(sys.modules[name], "__file__", None) for name in names]
        folders = [folder for folder in sys.path if os.path.basename(folder) in _PACKAGES]  # noqa: PTH119  # as text
        self._paths = [*folders, *filter(None, files)]
        self._found = self._look()
        self._looked = time.monotonic()

    @property
    def has_changed(self) -> bool:
        """Whether a process that starts now would import something else."""
        if time.monotonic() - self._looked > _LOOK_EVERY:
            self._looked = time.monotonic()
            return self._look() != self._found
        return False

    def _look(self) -> list[int]:
        return [_changed_at(path) for path in self._paths]


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  # some hundred files
    except OSError:
        return 0
