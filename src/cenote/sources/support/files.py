"""Hold what every source needs to say about a file: where it is, when it changed, why it cannot be read."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import fsspec

from cenote import errors
from cenote.errors import ErrorKind


@contextmanager
def explained(url: str, kind: ErrorKind, *, what: str = "") -> Iterator[None]:
    """Turn whatever goes wrong with a file into an error that names it."""
    try:
        yield
    except errors.CenoteError as problem:
        # The same damage is a bad input while planning and an unreadable one while running.
        problems = [replace(one, kind=kind) if one.kind is errors.BAD_INPUT else one for one in problem.problems]
        raise errors.CenoteError(problems) from problem.__cause__
    except FileNotFoundError as problem:
        raise errors.error(kind, f"{url} does not exist") from problem
    except PermissionError as problem:
        raise errors.error(kind, f"{url} cannot be read: permission denied") from problem
    except MemoryError:
        raise
    except Exception as problem:  # uproot raises many types on damaged files, IndexError and struct.error among them
        details = (f"file: {url}",) if what and url not in what else ()
        raise errors.error(kind, f"{what or url} cannot be read: {_first_line(problem)}", details=details) from problem


def is_remote(url: str) -> bool:
    """Whether a name is an address rather than a path."""
    return "://" in url and not url.startswith("file://")


def local_path(url: str) -> Path:
    """The path that a name or a `file://` address stands for."""
    return Path(url.removeprefix("file://"))


def demand_client(url: str) -> None:
    """Raise `environment`, with the extra to install, where the protocol needs software that is not there."""
    if not url.startswith(("root://", "roots://", "xroot://")):
        return
    if any(importlib.util.find_spec(module) is None for module in ("XRootD", "fsspec_xrootd")):
        raise errors.error(
            errors.ENVIRONMENT,
            f"reading {url} needs the XRootD client, which is not installed",
            hint="pip install 'cenote[xrootd]'",
        )


def local_stamp(url: str) -> str:
    """Changes whenever a file on this machine does; empty for a remote one, which has to tell its own."""
    if is_remote(url):
        return ""
    found = os.stat(url.removeprefix("file://"))  # noqa: PTH116  # half the time of Path.stat, and it runs for every chunk
    return f"{found.st_mtime_ns}-{found.st_size}"


def stamp_of(url: str) -> str:
    """The same without an error, and for remote files from one short request; empty where unknown."""
    try:
        return _remote_stamp(url) if is_remote(url) else local_stamp(url)
    except Exception:  # whatever is wrong will be said, better, by whoever opens the file
        return ""


def _remote_stamp(url: str) -> str:
    filesystem, path = fsspec.core.url_to_fs(url)
    about = filesystem.info(path)
    changed = next((about[key] for key in ("ETag", "etag", "mtime", "last_modified") if about.get(key)), "")
    return f"{changed}-{about.get('size')}"


def _first_line(problem: Exception) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__
