"""Keep the process that cleans up after an agent which was killed."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from cenote.service.agent import guard
from cenote.shell import Process, start_process


class Guard:
    """Runs beside the agent, from its start to its end in good order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: Process | None = None
        self._pipe: int | None = None

    @property
    def pid(self) -> int:
        """Of its process; 0 where there is none."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Begin to watch."""
        reading, self._pipe = os.pipe()
        command = [sys.executable, "-I", "-S", guard.__file__, str(reading), str(self._folder)]
        try:
            self._process = start_process(command, pass_fds=[reading])
        finally:
            os.close(reading)

    def dismiss(self) -> None:
        """The agent has cleaned up itself."""
        if self._process is None or self._pipe is None:
            return
        with suppress(BrokenPipeError):
            os.write(self._pipe, b".")
        os.close(self._pipe)
        self._process.wait()
        self._process = None
