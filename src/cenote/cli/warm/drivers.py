"""Hand a run to a service, which drives it: as a task of a pool on its own machine."""

from __future__ import annotations

import os
import shlex
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from cenote.cli.warm.submitted import SubmittedRun
from cenote.common import errors
from cenote.common.shell import ALONE
from cenote.language.execution import Elastic
from cenote.language.plugins.registry import starts_here
from cenote.service.client.connection import Connection, connect
from cenote.service.client.python_call import PythonCall
from cenote.service.client.records import NewPool, NewTask, ServiceRecord
from cenote.service.client.task_flows import TaskHandle

POOL = "drivers"
LABEL = "cenote.driver"
"""Of tasks that drive runs: the name of the file that says what was asked for."""
_SLOTS, _WORKERS = 16, 4
_IDLE_SECONDS = 600
"""That a worker for drivers waits for the next one, with all that they import."""
_GRACE = 60
"""Seconds that a driver has to end its workers and write down how far it came."""
_YOUNG = 60.0
"""Seconds in which a file may belong to a task that is not in the queue yet."""
_MODULE = "cenote.cli.warm.submitted"
_ON_TERMINAL = "cenote.cli.warm.lent"
_WARM = (_MODULE, "cenote.cli.warm.driver")


def hand_over(connection: Connection, arguments: Sequence[str], *, out: Path, stdin: str | None) -> TaskHandle:
    """Let the service run `cenote` with these words here: in this folder, with these variables."""
    service = connection.service
    folder = Path(service.home) / "submitted"
    if not connection.caller.names_files or not folder.parent.is_dir():
        raise errors.error(
            errors.USAGE,
            "only the owner of a service, on its machine, can leave runs to it",
            hint="submit the run where the service runs, or use `cenote run --service` here",
        )
    _sweep(connection, folder)
    asked = SubmittedRun(
        arguments=tuple(arguments),
        folder=str(Path.cwd()),
        variables={name: value for name, value in os.environ.items() if _is_text(value)},
        out=str(out.absolute()),
        at=time.time(),
        stdin=stdin,
    )
    file = folder / f"{uuid.uuid4().hex}.json"
    asked.write(file)
    try:
        return connection.task(connection.add_task(_driver(connection, service, file, out)).id)
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def hand_over_terminal(connection: Connection, listening: Path, *, out: Path) -> TaskHandle:
    """Let a warm process of the service run the command that listens there, which lends it its terminal."""
    call = PythonCall(module=_ON_TERMINAL, arguments=(str(listening),), warm=_WARM)
    asked = NewTask(
        name=f"run {out.name}, driver",
        pool=POOL,
        python=call,
        grace=_GRACE,
        run=str(out.absolute()),
        requeue=False,  # its terminal is gone by then
    )
    return connection.task(connection.add_task(asked).id)


def drivers_are_warm(connection: Connection) -> bool:
    """Whether a process of this service can drive a run of this program in a moment."""
    if not _may_drive(connection, connection.service):
        return False
    found = [pool for pool in connection.pool_records() if pool.name == POOL]
    return bool(found) and found[0].on_demand and found[0].busy < found[0].workers * found[0].slots


def warm_drivers(service: str | None) -> None:
    """Let the next run on this service find a process that has its imports; this one does not wait for it."""
    with connect(service or None) as connection:
        if _may_drive(connection, connection.service) and not drivers_are_warm(connection):
            call = PythonCall(module=_ON_TERMINAL, arguments=(os.devnull,), warm=_WARM)
            connection.add_task(NewTask(name="imports for drivers", pool=_pool(connection), python=call))


def _may_drive(connection: Connection, service: ServiceRecord) -> bool:
    """Whether it runs on this machine, for this user, with this Python."""
    at_home = connection.caller.names_files and Path(service.home).is_dir()
    return at_home and service.python == sys.executable


def _driver(connection: Connection, service: ServiceRecord, file: Path, out: Path) -> NewTask:
    """Forked from a process that has its imports, where the service has the same Python."""
    same = service.python == sys.executable
    call = PythonCall(module=_MODULE, arguments=(str(file),), warm=_WARM)
    command = shlex.join([sys.executable, *ALONE, "-m", _MODULE, str(file)])
    return NewTask(
        name=f"run {out.name}, driver",
        pool=_pool(connection),
        python=call if same else None,
        command="" if same else f"exec {command}",
        labels={LABEL: file.stem},
        grace=_GRACE,
        run=str(out.absolute()),
    )


def _pool(connection: Connection) -> str:
    found = [pool for pool in connection.pool_records() if pool.name == POOL]
    if not found:
        size = Elastic(min=0, max=_WORKERS, idle_time=_IDLE_SECONDS, resize_period=1)
        return connection.add_pool(NewPool(name=POOL, elastic=size, slots=_SLOTS, on_demand=True)).name
    if not found[0].on_demand and not starts_here(found[0].strategy):
        raise errors.error(
            errors.NEVER_FITS,
            f"the service's pool '{POOL}' has workers on other machines ({found[0].strategy}), and cannot drive runs",
            hint="give that pool another name; the service makes one for drivers",
        )
    return POOL


def _sweep(connection: Connection, folder: Path) -> None:
    """Remove what drivers left that were cancelled or killed, and will not be begun again."""
    wanted = {one.labels[LABEL] for one in connection.task_records(LABEL) if not one.state.is_over}
    for file in folder.glob("*.json"):
        if file.stem not in wanted and time.time() - file.stat().st_mtime > _YOUNG:
            file.unlink(missing_ok=True)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
