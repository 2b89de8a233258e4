"""Drive a run that was left to a service: in the folder, with the variables and the words of whoever submitted it.

Started as `python -m cenote.cli.warm.submitted FILE`. The file is private, because variables may hold secrets: they are
in no log, no record and no command line. It goes when the run is over, and stays as long as its driver may be begun
again.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO, cast

import msgspec

from cenote.cli.main import main as run_command
from cenote.common import storage
from cenote.service.client.constants import JOB

FORGETS = ("--fresh", "--replace")
"""Options that discard what is there: once, and not when the driver is begun again."""
_ENDED_BY_OTHERS = (128 + 1, 128 + 15)
"""Exit codes by SIGHUP and SIGTERM: its worker was ended, and its service may begin it again."""


class SubmittedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, and from where."""

    arguments: tuple[str, ...]
    """Of `cenote`."""
    folder: str
    """The working folder."""
    variables: dict[str, str]
    out: str
    """The run's folder; absolute."""
    at: float
    """When, in seconds since the epoch."""
    stdin: str | None = None
    """The workflow, where that is what standard input held."""

    def write(self, file: Path) -> None:
        """For its owner's eyes only."""
        storage.write_private(file, msgspec.json.encode(self))


def main() -> None:
    """Be the driver."""
    file = Path(sys.argv[1])
    asked = msgspec.json.decode(file.read_bytes(), type=SubmittedRun)
    _take_on(asked)
    arguments = [word for word in asked.arguments if word not in FORGETS or not _has_begun(asked)]
    sys.argv[:] = ["cenote", *arguments]
    try:
        run_command(arguments)
    except SystemExit as end:
        if end.code not in _ENDED_BY_OTHERS:
            file.unlink(missing_ok=True)
        raise


def _take_on(asked: SubmittedRun) -> None:
    kept = {JOB: os.environ[JOB]} if JOB in os.environ else {}  # by it the agent finds what the run left behind
    os.environ.clear()
    os.environ.update({**asked.variables, **kept})
    os.chdir(asked.folder)
    own = [part for part in asked.variables.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:0] = [part for part in own if part not in sys.path]
    if asked.stdin is not None:
        sys.stdin = cast(TextIO, io.TextIOWrapper(io.BytesIO(asked.stdin.encode()), encoding="utf-8"))


def _has_begun(asked: SubmittedRun) -> bool:
    """Whether this very submission has discarded what was there, and begun."""
    from cenote.common.errors import CenoteError
    from cenote.engine.messages import RunStarted
    from cenote.execution.runs.journal import read_events

    try:
        started = [event.at for event in read_events(Path(asked.out)) if isinstance(event, RunStarted)]
    except CenoteError:
        return False
    return bool(started) and started[0] >= asked.at


if __name__ == "__main__":
    main()
