"""Run on a node in the place of a worker: find out what a worker would find, report it, and end.

Started as `python -m cenote.execution.probe.node WORD IDENTITY`. Nothing is imported that might be missing or broken:
what is, is tried one by one, with a time limit each, since a file system that hangs is one of the things to find out.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from cenote.common.certificates.identity import ANOTHER_SERVICE, Identity, refusal_in_words
from cenote.common.credential_files.places import find_authorities
from cenote.common.machine import this_machine, visible_gpus
from cenote.common.software import installed_versions
from cenote.execution.probe.credentials import from_answer, look_at, request_for
from cenote.execution.probe.report import (
    MARK,
    NOT_THERE,
    CredentialSeen,
    FileAsked,
    FileSeen,
    FolderSeen,
    Loaded,
    NodeReport,
    Question,
    as_line,
    from_word,
)
from cenote.execution.worker.process.credentials import keep_credentials
from cenote.execution.worker.process.scratch import filled_in, leave_scratch, take_scratch

_FOLDER_SECONDS, _IMPORT_SECONDS, _FILE_SECONDS, _CONNECT_SECONDS = 20.0, 90.0, 60.0, 15.0
ALL_SECONDS = 150.0
"""What is left by then is not tried any more."""
_FEW = 10
"""Values of a column that are read."""
Found = TypeVar("Found")


class _Clock:
    """Tries things with a time limit each, and one for all."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def within(self, seconds: float, look: Callable[[], Found]) -> tuple[Found | None, float, str]:
        """What was found, how long it took, and the problem if there was one: an error, or no answer in time."""
        allowed = min(seconds, ALL_SECONDS - self.seconds)
        if allowed <= 0:
            return None, 0.0, "not tried: everything before it took too long"
        answer: list[Found] = []
        problem: list[str] = []

        def work() -> None:
            try:
                answer.append(look())
            except BaseException as raised:  # plugins may do anything, SystemExit included
                problem.append(_in_words(raised))

        began = time.monotonic()
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(allowed)
        took = round(time.monotonic() - began, 4)
        if answer:
            return answer[0], took, ""
        return None, took, problem[0] if problem else f"no answer within {allowed:.0f} s"


def look_around(question: Question, *, undelivered: str = "") -> NodeReport:
    """Everything but the network; `undelivered` is why there are no credentials."""
    clock = _Clock()
    here = this_machine()
    return NodeReport(
        pool=question.pool,
        token=question.token,
        host=socket.gethostname(),
        python=platform.python_version(),
        executable=sys.executable,
        cpus=here.cpus,
        memory=here.memory,
        gpus=visible_gpus(),
        gpu_models=gpu_models(),
        packages=installed_versions(question.packages),
        scratch=_folder(clock, question.scratch or tempfile.gettempdir(), may_be_made=True),
        folder=_folder(clock, question.folder),
        modules=tuple(_loaded(clock, name, partial(importlib.import_module, name)) for name in question.modules),
        plugins=tuple(_loaded(clock, plugin[0], partial(_add, question, *plugin)) for plugin in question.plugins),
        credentials=tuple(
            CredentialSeen(one.type, problem=undelivered) if undelivered else look_at(one)
            for one in question.credentials
        ),
        authorities=str(clock.within(_FOLDER_SECONDS, lambda: find_authorities(os.environ))[0] or ""),
        files=tuple(_file(clock, file) for file in question.files),
        seconds=round(clock.seconds, 4),
    )


def gpu_models(root: Path = Path("/")) -> tuple[str, ...]:
    """What the NVIDIA driver says of the GPUs of this machine; empty without a driver."""
    found = []
    for file in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        found += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return tuple(found)


def _folder(clock: _Clock, place: str, *, may_be_made: bool = False) -> FolderSeen:
    path = Path(filled_in(place))
    free, _, problem = clock.within(_FOLDER_SECONDS, lambda: _write_into(path, may_be_made=may_be_made))
    return FolderSeen(str(path), free or 0, problem)


def _write_into(folder: Path, *, may_be_made: bool) -> int:
    """Bytes that are free there. Raises OSError where nothing can be written.

    Of a folder that workers would make, the nearest one around it that exists is tried. The file has no name where the
    system knows such: a probe may be ended at any moment, and leaves nothing.
    """
    if "$" in str(folder):
        raise FileNotFoundError("a variable in it is not set on this node")
    if may_be_made:
        folder = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    if not folder.is_dir():
        raise FileNotFoundError(NOT_THERE)
    with tempfile.TemporaryFile(prefix=".cenote-probe-", dir=folder) as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())
    return shutil.disk_usage(folder).free


def _loaded(clock: _Clock, name: str, load: Callable[[], object]) -> Loaded:
    _, seconds, problem = clock.within(_IMPORT_SECONDS, load)
    return Loaded(name, seconds, problem)


def _add(question: Question, target: str, kind: str | None, name: str | None) -> None:
    """As a worker does before its first task."""
    from cenote.language.plugins import registry
    from cenote.language.plugins.shipped import bring_along, extend_path

    extend_path(question.path)
    bring_along(question.sources, complete=True)
    registry.add_travelled(target, kind, name, question.sources)


def _file(clock: _Clock, file: FileAsked) -> FileSeen:
    entries, seconds, problem = clock.within(_FILE_SECONDS, lambda: _read_from(file))
    return FileSeen(file.dataset, file.url, seconds, entries or 0, problem)


def _read_from(file: FileAsked) -> int:
    """How many events the file has, after a few values of it were read as the workflow reads them."""
    from cenote.language.plugins import registry
    from cenote.language.plugins.kinds import PluginKind

    source = registry.make(PluginKind.SOURCE, file.kind, file.settings)
    entries = int(source.describe(file.url).entries)
    if file.column is not None:
        source.read(file.url, [file.column], 0, min(_FEW, entries))
    return entries


def _in_words(raised: BaseException) -> str:
    """The first line: an OSError without its number, our own errors without our class."""
    if isinstance(raised, OSError) and raised.strerror:
        return raised.strerror
    first = next((line.strip() for line in str(raised).splitlines() if line.strip()), "")
    if isinstance(raised, FileNotFoundError) or type(raised).__module__ == "cenote.common.errors":
        return first
    return f"{type(raised).__name__}: {first}" if first else type(raised).__name__


class _NoAnswerError(Exception):
    """Why the driver did not answer, in words."""


def _answer(line: bytes, host: str, port: int, identity: Path) -> bytes:
    """The line with which the driver answers another. Raises _NoAnswerError."""
    try:
        context = Identity.read(identity).connecting()
    except OSError as problem:
        words = f"the certificate {identity} cannot be read: {refusal_in_words(problem)}"
        raise _NoAnswerError(words) from problem
    try:
        with (
            socket.create_connection((host, port), timeout=_CONNECT_SECONDS) as plain,
            context.wrap_socket(plain) as connection,
            connection.makefile("rb") as answers,
        ):
            connection.sendall(line)
            answer = answers.readline()
    except OSError as problem:
        slow = isinstance(problem, TimeoutError)
        words = f"no answer within {_CONNECT_SECONDS:.0f} s" if slow else refusal_in_words(problem)
        raise _NoAnswerError(words) from problem
    if not answer:
        raise _NoAnswerError(ANOTHER_SERVICE)
    return answer


def hand_over(report: NodeReport, host: str, port: int, identity: Path) -> NodeReport:
    """Tell the driver; what comes back says whether that worked."""
    try:
        _answer(as_line(report).encode() + b"\n", host, port, identity)
    except _NoAnswerError as problem:
        return replace(report, no_connection=str(problem))
    return report


def receive_credentials(question: Question, identity: Path) -> str:
    """Get what workers of the pool have, and keep it as they do, until `leave_scratch`; the problem if there is one."""
    if question.host is None or not question.credentials:
        return ""
    try:
        answer = _answer(request_for(question.pool), question.host, question.port, identity)
        keep_credentials(from_answer(answer), take_scratch(tempfile.gettempdir(), f"{question.pool}-probe"))
    except _NoAnswerError as problem:
        return str(problem)
    except (OSError, ValueError) as problem:
        return _in_words(problem)
    return ""


def main() -> None:
    """Entry point of the process."""
    question, identity = from_word(sys.argv[1]), Path(sys.argv[2])
    try:
        report = look_around(question, undelivered=receive_credentials(question, identity))
    finally:
        leave_scratch()
    if question.host is not None:
        report = hand_over(report, question.host, question.port, identity)
    sys.stdout.write(f"\n{MARK}{as_line(report)}\n")
    sys.stdout.flush()
    os._exit(0)  # what hangs, hangs in a thread


if __name__ == "__main__":
    main()
