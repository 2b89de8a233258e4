"""Start other programs, and end them: the one module that does. Commands are lists, never shell strings."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

Process = subprocess.Popen[bytes]
FinishedProcess = subprocess.CompletedProcess[str]

_FAULTS = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
"""How the system ends a program that does what it must not. Nobody sends these from outside."""

ALONE = ("-P",)
"""For a Python of ours: it does not begin its imports in the folder that it is started in, where somebody may keep a
`signal.py`."""


_A_BLINK = 0.01
"""Seconds between two looks at a process that is waited for."""


def is_fault(code: int) -> bool:
    """Whether a program that ended so crashed: `code` as Popen has it (-11), or as a shell has it (139)."""
    return -code in _FAULTS or code - 128 in _FAULTS


def is_overdue(code: int) -> bool:
    """Whether a program that ended so, in either way to say it, was ended by the alarm that it had set itself."""
    return signal.SIGALRM in (-code, code - 128)


def start_process(
    command: Sequence[str],
    *,
    pass_fds: Sequence[int] = (),
    variables: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    stdout: Path | None = None,
    stderr: Path | None = None,
) -> Process:
    """Start a program and go on. Its output goes to the ends of these files, or nowhere. Its environment is that of
    this process or the one that is given, with these variables set.

    It is in a process group of its own: Ctrl-C in a terminal is for this program, which ends the other.
    """
    inherited = os.environ if environment is None else environment
    with (stdout or Path(os.devnull)).open("ab") as out, (stderr or Path(os.devnull)).open("ab") as err:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**inherited, **(variables or {})},
            pass_fds=tuple(pass_fds),
            process_group=0,
        )


def start_apart(
    command: Sequence[str], *, folder: Path, variables: Mapping[str, str], stdout: Path, stderr: Path
) -> Process:
    """Start a program in this folder, with these variables and no others; its output goes to the ends of these files.

    It leads a session of its own: all that it starts can be ended together. Raises OSError where there is no such
    program, and ValueError where a word or a variable has a NUL.
    """
    with stdout.open("ab") as out, stderr.open("ab") as err:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=dict(variables),
            start_new_session=True,
        )


def let_go(process: Process) -> None:
    """Wait for it no more: it outlives this program, and Python need not warn of that."""
    process.returncode = 0


class RunningProcess(Protocol):
    """A process of this machine, whoever started it: one of `start_process`, or one that was forked."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code, below zero for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended. Raises subprocess.TimeoutExpired or TimeoutError."""

    def terminate(self) -> None:
        """Ask it to end; one that is gone is not an error."""

    def kill(self) -> None:
        """End it; one that is gone is not an error."""


class ProcessGroup:
    """A program of `start_process` with all that it starts in its group: what is left of that ends with the program."""

    def __init__(self, leader: Process) -> None:
        self._leader = leader
        self.pid = leader.pid

    def poll(self) -> int | None:
        """The exit code of the program; None while it runs."""
        if self._leader.returncode is None and self._is_over():
            with suppress(ProcessLookupError, PermissionError):  # there may be nobody left
                os.killpg(self.pid, signal.SIGKILL)  # it is not reaped, so that the number is its
        return self._leader.poll()

    def wait(self, timeout: float | None = None) -> int:
        """The exit code of the program, once it has ended. Raises TimeoutError."""
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"process {self.pid} has not ended within {timeout:g} s")
            time.sleep(_A_BLINK)
        return code

    def terminate(self) -> None:
        """Ask the program to end."""
        self._leader.terminate()

    def kill(self) -> None:
        """End the program."""
        self._leader.kill()

    def _is_over(self) -> bool:
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # somebody else waited for it
            return False


def exit_code(process: RunningProcess, *, patience: float) -> int:
    """Of a process that is about to end; one that takes longer than so many seconds is killed."""
    try:
        return process.wait(patience)
    except (subprocess.TimeoutExpired, TimeoutError):
        process.kill()
        return process.wait()


def end_processes(processes: Sequence[RunningProcess], *, patience: float) -> None:
    """End them now; those that clean up after themselves have so many seconds for it, all together."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + patience
    for process in processes:
        exit_code(process, patience=max(0.0, deadline - time.monotonic()))


def run_command(
    command: Sequence[str], *, seconds: float, folder: Path | None = None, given: str = "", hears_ctrl_c: bool = True
) -> FinishedProcess:
    """Run a program to its end; `given` is its input, its output comes back as text.

    Ctrl-C in a terminal goes to every program there: without `hears_ctrl_c` only to this one, which may need the other.
    Raises TimeoutError past the limit, and FileNotFoundError where there is no such program.
    """
    try:
        return subprocess.run(
            list(command),
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            cwd=folder,
            check=False,
            process_group=None if hears_ctrl_c else 0,
        )
    except subprocess.TimeoutExpired as problem:
        raise TimeoutError(f"{command[0]} did not answer within {seconds:g} s") from problem
