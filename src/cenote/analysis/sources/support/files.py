"""Hold what every source needs to say about a file: where it is, when it changed, why it cannot be read."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from cenote.common import errors
from cenote.common.errors import ErrorKind, Problem

_S3_SCHEMES = ("s3", "s3a")
XROOTD_SCHEMES = ("root", "roots", "xroot", "xroots")
"""Those with an s are encrypted from the first byte on, the others when the server wants it."""
_XROOTD_REASON = re.compile(r"^.*\[(?:FATAL|ERROR)\]\s*(?:Server responded with an error: )?")
"""What stands before the reason, such as the call that failed and where it is in memory."""
_XROOTD_NOT_FOUND = "[3011]"
"""kXR_NotFound of XRootD's protocol."""


@contextmanager
def explained(url: str, kind: ErrorKind, *, what: str = "") -> Iterator[None]:
    """Turn whatever goes wrong with a file into an error that names it."""
    try:
        yield
    except errors.CenoteError as problem:
        # The same damage is a bad input while planning and an unreadable one while running.
        problems = [replace(one, kind=kind) if one.kind is errors.BAD_INPUT else one for one in problem.problems]
        raise errors.CenoteError(problems) from problem.__cause__
    except MemoryError:
        raise
    except Exception as problem:  # uproot raises many types on damaged files, IndexError and struct.error among them
        raise errors.CenoteError(_problem_of(url, kind, what, problem)) from problem


def _problem_of(url: str, kind: ErrorKind, what: str, problem: Exception) -> Problem:
    if is_remote(url):
        from cenote.analysis.sources.support.refused import refusal  # what it takes to read credentials

        if refused := refusal(url, problem, kind):
            return refused
        if _XROOTD_NOT_FOUND in str(problem):
            return Problem(kind, f"{url} does not exist")
    if isinstance(problem, FileNotFoundError):
        said = problem.__cause__  # fsspec makes this error of whatever an HTTP server says, and of its silence
        if said is None or getattr(said, "status", None) == HTTPStatus.NOT_FOUND:
            return Problem(kind, f"{url} does not exist")
        return Problem(kind, f"{url} cannot be read: {_first_line(said)}")
    if isinstance(problem, PermissionError):
        return Problem(kind, f"{url} cannot be read: permission denied")
    if is_remote(url) and (reason := _XROOTD_REASON.sub("", str(problem))) != str(problem):
        return Problem(kind, f"{url} cannot be read: {reason.strip()}")
    details = (f"file: {url}",) if what and url not in what else ()
    return Problem(kind, f"{what or url} cannot be read: {_first_line(problem)}", details=details)


def is_remote(url: str) -> bool:
    """Whether a name is an address rather than a path."""
    return "://" in url and not url.startswith("file://")


def local_path(url: str) -> Path:
    """The path that a name or a `file://` address stands for."""
    return Path(url.removeprefix("file://"))


def remote_options(url: str) -> dict[str, Any]:  # Any: fsspec has options of every type
    """What fsspec needs to read a remote file with the user's credentials.

    Raises `environment`, with the extra to install, where the protocol needs software that is not there.
    """
    scheme = url.partition("://")[0]
    if scheme == "https":
        from cenote.analysis.sources.support.https import open_session

        return {"get_client": open_session}
    if scheme in _S3_SCHEMES and importlib.util.find_spec("s3fs") is None:
        raise errors.error(
            errors.ENVIRONMENT, f"{url} needs s3fs, which is not installed", hint="pip install 'cenote[s3]'"
        )
    if scheme in XROOTD_SCHEMES:
        if any(importlib.util.find_spec(module) is None for module in ("XRootD", "fsspec_xrootd")):
            raise errors.error(
                errors.ENVIRONMENT,
                f"reading {url} needs the XRootD client, which is not installed",
                hint="pip install 'cenote[xrootd]'",
            )
        from cenote.analysis.sources.support.xrootd import register

        register(*XROOTD_SCHEMES)
    return {}


def local_stamp(url: str) -> str:
    """Changes whenever a file on this machine does; empty for a remote one, which has to tell its own."""
    if is_remote(url):
        return ""
    found = os.stat(url.removeprefix("file://"))  # noqa: PTH116  # half the time of Path.stat, and it runs for every chunk
    return f"{found.st_mtime_ns}-{found.st_size}"


def file_number(url: str) -> int:
    """Of the file on this machine that the name leads to now; 0 for a remote one.

    A file that is kept open may be another one by then, with the same stamp: one that was written over, and has its
    earlier copy in its place again.
    """
    return 0 if is_remote(url) else local_path(url).stat().st_ino


def stamp_of(url: str) -> str:
    """The same without an error, and for remote files from one short request; empty where unknown."""
    try:
        return _remote_stamp(url) if is_remote(url) else local_stamp(url)
    except Exception:  # whatever is wrong will be said, better, by whoever opens the file
        return ""


def remote_files(url: str) -> tuple[Any, str]:  # Any: fsspec publishes no types
    """What reads from the server of a remote file, with the user's credentials, and the file's name there."""
    import fsspec  # with asyncio, which files of this machine do without

    found: tuple[Any, str] = fsspec.core.url_to_fs(url, **remote_options(url))
    return found


def _remote_stamp(url: str) -> str:
    filesystem, path = remote_files(url)
    about = filesystem.info(path)
    changed = next(
        (about[key] for key in ("ETag", "etag", "mtime", "last_modified", "Last-Modified") if about.get(key)), ""
    )
    return f"{changed}-{about.get('size')}"


def _first_line(problem: BaseException) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__
