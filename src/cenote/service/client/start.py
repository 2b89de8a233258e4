"""Find the service of this user, and start a private one where there is none."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

from cenote.common import errors, storage
from cenote.common.shell import ALONE, let_go, start_apart
from cenote.service.client.address import TOKEN_VARIABLE
from cenote.service.client.home import ServiceHome, usual_home
from cenote.service.client.line import Line
from cenote.service.client.records import ServiceRecord, StoppingRecord

_PATIENCE = 30.0
"""Seconds until a service that was started must answer."""


def find_or_start(service: str | Path | None, *, start: bool = True) -> Path:
    """The socket of the service that is named, by its socket or its folder; else of the user's own, started or not."""
    if service is not None:
        return _named(storage.expanded(service))
    home = ServiceHome(usual_home())
    if (found := answering(home)) is not None:
        return found
    if not start:
        raise errors.error(errors.NO_SERVICE, "no service of yours runs", hint="`cenote serve` starts one")
    home.prepare()
    with (home.path / "starting").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two programs that begin at once start one service
        if (found := answering(home)) is not None:
            return found
        _comes_free(home)
        return answering(home) or _started(home)


def _named(path: Path) -> Path:
    if not path.is_dir():
        return path
    if (found := ServiceHome(path).read_address()) is None:
        raise errors.error(
            errors.NO_SERVICE, f"no service has {path} as its folder", hint=f"`cenote serve --home {path}` starts one"
        )
    return found


def answering(home: ServiceHome) -> Path | None:
    """The socket of a service that has this folder, if it answers."""
    if (path := home.read_address()) is None:
        return None
    try:
        Line(path).get("/service", ServiceRecord)
    except errors.CenoteError:
        return None
    return path


def stop_service(home: ServiceHome, *, drain: bool = False) -> int:
    """Stop the service that has this folder, and wait for its end; when it drains, it first waits for what runs.

    Returns how many instances ran: without `drain`, the next service begins them again.
    """
    running = _line_to(home).post("/stop?drain=true" if drain else "/stop", StoppingRecord).running
    while drain and answering(home) is not None:
        time.sleep(0.1)
    if not _comes_free(home):
        raise errors.error(
            errors.STILL_RUNNING, f"the service that has {home.path} as its folder still ends its workers", hint="wait"
        )
    return running


def reload_service(home: ServiceHome) -> None:
    """Let the service that has this folder read its file again. Raises what is wrong with the file."""
    _line_to(home).post("/reload", ServiceRecord)


def _line_to(home: ServiceHome) -> Line:
    if (path := answering(home)) is None:
        raise errors.error(errors.NO_SERVICE, f"no service answers that has {home.path} as its folder")
    return Line(path)


def _comes_free(home: ServiceHome) -> bool:
    """Wait until no service has this folder: one that was stopped ends its workers first. False where it still has it
    after some time."""
    until = time.monotonic() + _PATIENCE
    while taken := home.is_taken:
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return not taken


def _started(home: ServiceHome) -> Path:
    command = (sys.executable, *ALONE, "-m", "cenote", "serve", "--private", "--home", str(home.path))
    variables = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    process = start_apart(command, folder=home.path, variables=variables, stdout=home.output, stderr=home.output)
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if (found := answering(home)) is not None:
            let_go(process)
            return found
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise errors.error(
        errors.NO_SERVICE,
        f"the service of this user did not start: {_last_line(home.output)}",
        hint=f"{home.output} has what it printed",
    )


def _last_line(file: Path) -> str:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    said = [line for line in lines if not line.startswith(" ")]  # hints and details follow what they belong to
    return said[-1] if said else "it printed nothing"
