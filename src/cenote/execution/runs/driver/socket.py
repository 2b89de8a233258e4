"""Let the owner of a run talk to its driver: a Unix socket in a private folder, named in the run's lock file.

The folder has mode 0700 and an unpredictable name, and both ends look at the user of the other (SO_PEERCRED). A request
is one line of JSON, and so is its answer. What files can say is read from the run's folder; the socket is for the rest:
to ask for the end of the run, and whether the driver answers.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

import msgspec

from cenote.common import signals, storage
from cenote.common.signals import Interruptions
from cenote.execution.runs.folder import Pulse, name_socket

SECONDS = 5.0
"""That the other end gets for a line."""
_LONGEST_LINE = 4096
_NAME = "driver"
_YOUNG = 60.0
"""Seconds in which a folder may have been made and have no socket yet."""
_ROOT = 0


class DriverRequest(msgspec.Struct, frozen=True):
    """What somebody wants of the driver."""

    verb: Literal["answer", "cancel"]


class DriverAnswer(msgspec.Struct, frozen=True):
    """What the driver says."""

    idle: float
    """Seconds since its loop last turned: it does so several times a second."""
    interruptions: int
    """How often it was asked to end, by signals and by `cancel`."""


class DriverSilentError(Exception):
    """The driver did not answer."""


class NoSocketError(DriverSilentError):
    """There is no such socket: it was removed, or the driver has other temporary folders, as in a container."""


class ForeignDriverError(Exception):
    """The driver belongs to another user."""


def ask(path: Path, verb: Literal["answer", "cancel"], *, seconds: float = SECONDS) -> DriverAnswer:
    """Ask the driver behind this socket."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(seconds)
            line.connect(str(path))
            if os.geteuid() not in (_ROOT, user_of(line)):
                raise ForeignDriverError(f"{path} belongs to another user")
            line.sendall(msgspec.json.encode(DriverRequest(verb)) + b"\n")
            return msgspec.json.decode(_read_line(line, seconds), type=DriverAnswer)
    except FileNotFoundError:
        raise NoSocketError(f"{path} does not exist") from None
    except PermissionError:
        raise ForeignDriverError(f"{path} belongs to another user") from None
    except (OSError, ValueError, msgspec.MsgspecError) as problem:
        raise DriverSilentError(f"{path}: {problem}") from problem


@contextmanager
def reachable(lock: IO[str], pulse: Pulse, interruptions: Interruptions) -> Iterator[tuple[str, ...]]:
    """Let the owner of the run behind this lock reach its driver; yields warnings where this cannot be."""
    with ExitStack() as opened:
        warnings: tuple[str, ...] = ()
        try:
            path = opened.enter_context(open_socket(pulse, interruptions, time.time))
        except OSError as problem:
            warnings = (f"`cenote cancel` cannot reach this run, `kill -INT {os.getpid()}` can: {problem}",)
        else:
            name_socket(lock, path)
        yield warnings


@contextmanager
def open_socket(pulse: Pulse, interruptions: Interruptions, clock: Callable[[], float]) -> Iterator[Path]:
    """Answer the run's owner until the end of the block. Raises OSError where there can be no such socket."""
    if not hasattr(socket, "SO_PEERCRED"):
        raise OSError("this system does not tell which user asks")
    folder = _private_folder()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(folder / _NAME))
            listener.listen()
            answers = threading.Thread(
                target=_serve, args=(listener, pulse, interruptions, clock), name="cenote-driver-socket", daemon=True
            )
            answers.start()
            try:
                yield folder / _NAME
            finally:
                listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`
                answers.join()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(listener: socket.socket, pulse: Pulse, interruptions: Interruptions, clock: Callable[[], float]) -> None:
    while True:
        try:
            line, _ = listener.accept()
        except OSError:
            return  # the run is over
        with line, suppress(OSError, ValueError, msgspec.MsgspecError):  # whoever asks has the error
            line.settimeout(SECONDS)
            if user_of(line) not in (os.geteuid(), _ROOT):
                continue
            request = msgspec.json.decode(_read_line(line, SECONDS), type=DriverRequest)
            if request.verb == "cancel":
                signals.interrupt(interruptions)
            answer = DriverAnswer(idle=max(0.0, clock() - pulse.turned), interruptions=interruptions.count)
            line.sendall(msgspec.json.encode(answer) + b"\n")


def _read_line(line: socket.socket, seconds: float) -> bytes:
    """One line, of limited size and in limited time, however slowly it comes."""
    deadline = time.monotonic() + seconds
    read = b""
    while not read.endswith(b"\n"):
        line.settimeout(max(0.001, deadline - time.monotonic()))
        more = line.recv(_LONGEST_LINE - len(read))
        if not more:
            raise ValueError("the line has no end")
        read += more
    return read


def user_of(line: socket.socket) -> int:
    """The user of the process at the other end, as the kernel knows it."""
    _, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(user)


def _private_folder() -> Path:
    """A new one for this run. What killed drivers of this user left on this machine goes first."""
    prefix = f"cenote-driver-{socket.gethostname()[:24]}-"
    place = _place()
    _sweep(place, prefix)
    longest = len(os.fsencode(place / f"{prefix}12345678" / _NAME))
    if longest > storage.LONGEST_SOCKET:
        raise OSError(f"{place} is too long a name for the folder of a socket")
    return Path(tempfile.mkdtemp(prefix=prefix, dir=place))


def _place() -> Path:
    """The user's own folder of this machine where there is one, else the one for temporary files."""
    with suppress(KeyError, OSError):
        own = Path(os.environ["XDG_RUNTIME_DIR"])
        found = own.lstat()
        is_private = storage.is_own_folder(found) and stat.S_IMODE(found.st_mode) == stat.S_IRWXU
        if own.is_absolute() and is_private and os.access(own, os.W_OK | os.X_OK):
            return own
    return Path(tempfile.gettempdir()).absolute()


def _sweep(place: Path, prefix: str) -> None:
    for folder in place.glob(f"{prefix}*"):
        with suppress(OSError):  # gone meanwhile
            found = folder.lstat()
            if storage.is_own_folder(found) and _is_dead(folder, found.st_mtime):
                shutil.rmtree(folder, ignore_errors=True)


def _is_dead(folder: Path, made: float) -> bool:
    """Whether no process listens there any more."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.setblocking(False)
            line.connect(str(folder / _NAME))
    except (ConnectionRefusedError, FileNotFoundError):
        return time.time() - made > _YOUNG
    except OSError:
        return False  # busy
    return False
