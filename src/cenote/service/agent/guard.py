"""End what an agent leaves behind that was killed: its children, and its folder.

A script of its own, started without any of our modules: `guard.py DESCRIPTOR FOLDER`. The agent holds the other end of
a pipe; where that closes without a word, the agent is dead.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time

MARK = "CENOTE_AGENT_FOLDER"
"""Variable of the agent's own helpers: what is forked from them has it too, as /proc shows it."""
_ROUNDS, _BETWEEN = 100, 0.05
"""How often it looks, and seconds between: what is being started shows itself late."""
_QUIET = 3
"""Looks that find nothing, one after the other, before it believes that nothing is left."""


def main() -> None:
    """Wait for the end of the agent."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the agent says when it is over
    descriptor, folder = int(sys.argv[1]), sys.argv[2]
    if os.read(descriptor, 1):
        return
    _end_processes(folder)
    try:  # noqa: SIM105  # as below
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:  # too deep: the next worker of this node removes it
        pass


def _end_processes(folder: str) -> None:
    quiet = 0
    for _ in range(_ROUNDS):
        found = [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _belongs(pid, folder)]  # noqa: PTH208
        for pid in found:
            try:  # noqa: SIM105  # contextlib would take longer to import than all of this
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        quiet = 0 if found else quiet + 1
        if quiet == _QUIET:
            return
        time.sleep(_BETWEEN)


def _belongs(pid: int, folder: str) -> bool:
    """Whether it was started as an instance of this agent, or works in its folder."""
    if pid == os.getpid():
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            variables = file.read().split(b"\0")
        if f"{MARK}={folder}".encode() in variables or os.readlink(f"/proc/{pid}/cwd").startswith(folder + "/"):  # noqa: PTH115
            return True
        jobs = os.listdir(os.path.join(folder, "job"))  # noqa: PTH118, PTH208
    except OSError:
        return False  # gone, or of another user
    return any(f"JOB_UUID={job}".encode() in variables for job in jobs)


if __name__ == "__main__":
    main()
