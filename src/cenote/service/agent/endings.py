"""Say in words how an instance ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from cenote import storage
from cenote.service.agent.children import ChildEnd
from cenote.service.protocol import Cause
from cenote.worker.process.last_output import tail

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell that could not start a command."""
_LONGEST_LINE = 500
_SHELL_SIGNALS = 128


def cause_of(end: ChildEnd) -> Cause:
    """Of an instance that nobody asked to end."""
    if end.exit_code is not None:
        return "exit"
    return "signal" if end.signal is not None else "lost"


def was_asked_to_end(end: ChildEnd) -> bool:
    """Whether somebody sent it a SIGTERM, or a shell says so of its command."""
    return end.signal == signal.SIGTERM or end.exit_code == _SHELL_SIGNALS + signal.SIGTERM


def words_of_end(end: ChildEnd, *, stderr: Path, folder: Path) -> str:
    """What people read first of an instance that failed; nothing of one that succeeded."""
    if end.exit_code == 0:
        return "" if folder.is_dir() else "its working folder was removed while it ran"
    how = ": ".join((_number_in_words(end), *_last_line(stderr)))
    return "; ".join((how, *_surroundings(folder)))


def _number_in_words(end: ChildEnd) -> str:
    if end.signal is not None:
        return f"ended by {signal_name(end.signal)}"
    if end.exit_code is None:
        return "it is unknown how it ended"
    if end.exit_code == NOT_FOUND:
        return f"exit code {NOT_FOUND}, command not found"
    if end.exit_code == NOT_EXECUTABLE:
        return f"exit code {NOT_EXECUTABLE}, command not executable"
    by_signal = end.exit_code - _SHELL_SIGNALS
    known = by_signal in signal.valid_signals() if by_signal > 0 else False
    return f"exit code {end.exit_code}" + (f" ({signal_name(by_signal)})" if known else "")


def signal_name(number: int) -> str:
    """`SIGKILL`, or its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(stderr: Path) -> list[str]:
    lines = [line.strip() for line in tail(stderr).splitlines() if line.strip()]
    return [lines[-1][:_LONGEST_LINE]] if lines else []


def _surroundings(folder: Path) -> list[str]:
    try:
        return [f"the disk of {folder} is full"] if is_full(folder) else []
    except OSError:
        return ["its working folder was removed while it ran"]


def is_full(folder: Path) -> bool:
    """Whether nothing can be written there. Raises OSError where it is gone."""
    space = os.statvfs(folder)
    return not space.f_bavail or bool(space.f_files and not space.f_favail)  # some file systems do not count files


def words_of_refusal(problem: OSError, folder: Path) -> str:
    """Why its folder or files could not be made."""
    found = storage.problem_of(problem, problem.filename or folder)
    if found is None:
        return f"{folder}: {problem.strerror or problem}"
    return "; ".join((found.message, *found.details))
