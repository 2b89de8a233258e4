"""What live tests need: real services, brought and started here, gone afterwards.

A live test that cannot run is a failure where `CI=true`; elsewhere it is skipped and says why.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

IN_CI = os.environ.get("CI", "").lower() in ("1", "true")
ROOT = os.geteuid() == 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is marked `live`."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.live)


def cannot_run(why: str) -> NoReturn:
    """A failure in CI, a skip elsewhere."""
    if IN_CI:
        pytest.fail(f"a live test cannot run here: {why}", pytrace=False)
    pytest.skip(why)


def needs(name: str, *, package: str) -> str:
    """The path of a program; installed from Debian when CI runs as root, because somebody's machine is theirs."""
    found = shutil.which(name)
    if found is None and IN_CI and ROOT and shutil.which("apt-get"):
        _install(package)
        found = shutil.which(name)
    return found or cannot_run(f"there is no program '{name}'; on Debian: apt-get install {package}")


def _install(package: str) -> None:
    with Path(tempfile.gettempdir(), "cenote-live-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes want it at once
        patiently = ["--yes", "--quiet", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300"]
        succeeds(["apt-get", *patiently, "update"], seconds=300)
        succeeds(["apt-get", *patiently, "install", "--no-install-recommends", package], seconds=900)


def succeeds(command: Sequence[str], *, seconds: float) -> str:
    """What a command printed; where it fails, live tests cannot run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)
    except (OSError, subprocess.SubprocessError) as problem:
        cannot_run(complaint(problem))
    return done.stdout


def complaint(problem: Exception) -> str:
    """Why a command failed: its own last words, if it had any."""
    if isinstance(problem, subprocess.CalledProcessError):
        return f"{problem.cmd[0]} ended with {problem.returncode}: {str(problem.stderr).strip()[-300:]}"
    return str(problem)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None, as_nobody: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a group of its own, which is gone afterwards with everything it started."""
    other = {"user": "nobody", "group": "nogroup", "extra_groups": []} if as_nobody and ROOT else {}
    with log.open("wb") as output:
        process = subprocess.Popen(  # type: ignore[call-overload]  # the keywords are given together or not at all
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            **other,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (15, 9):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue
    process.wait(timeout=5)


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[bytes], *, log: Path, seconds: float = 120) -> None:
    """Until it is ready. What it printed is told when it is not."""
    deadline = time.monotonic() + seconds
    while not ready():
        printed = log.read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"it ended with {process.returncode}:\n{printed}"
        assert time.monotonic() < deadline, f"it is not ready after {seconds} s:\n{printed}"
        time.sleep(0.05)


def listens(port: int) -> bool:
    """Whether somebody answers on this port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
