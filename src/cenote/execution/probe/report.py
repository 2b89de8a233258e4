"""Define what a probe is asked and what it answers: plain values that any Python can read and write.

Nothing outside the standard library is used: a node whose software is incomplete must be able to say so.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

from cenote.common.values import dataclass
from cenote.language.plugins.shipped import SourceFile

NOT_THERE = "it is not there"
"""The problem of a folder that the node does not see."""
MARK = "cenote-probe "
"""Begins the line of a job's output that holds the answer."""


@dataclass(frozen=True)
class FileAsked:
    """A file of the data, and how the workflow reads it."""

    dataset: str
    url: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    column: str | None = None
    """One that the workflow reads; a few values of it are read."""


@dataclass(frozen=True)
class CredentialAsked:
    """A credential that workers of the pool have; what it holds is not part of the question."""

    type: str
    variable: str
    """The one that names its file."""
    ends: float | None = None
    """In seconds since the epoch, as the driver knows it."""


@dataclass(frozen=True)
class Question:
    """What a probe is to find out."""

    pool: str
    token: str
    """Tells the answer of this probe from whatever else stands in a job's output. It stands on command lines, and is no
    secret: who may connect to the driver is decided by certificates."""
    host: str | None = None
    """Where the driver listens; None: there is no driver to connect to."""
    port: int = 0
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    """To be imported: what a worker begins with."""
    plugins: tuple[tuple[str, str | None, str | None], ...] = ()
    """(target, kind, name) of the workflow's own plugins."""
    sources: tuple[SourceFile, ...] = ()
    """Their Python files, which travel with the question as they do with the tasks of a run."""
    path: tuple[str, ...] = ()
    """Folders that the driver imports from, and a Python of its kind by itself does not."""
    files: tuple[FileAsked, ...] = ()
    credentials: tuple[CredentialAsked, ...] = ()
    folder: str = ""
    """The run's."""
    scratch: str | None = None
    """Where workers put temporary files; None for the usual place of the node."""


@dataclass(frozen=True)
class FolderSeen:
    """A folder, and whether one can write there."""

    path: str
    free: int = 0
    """Bytes."""
    problem: str = ""


@dataclass(frozen=True)
class FileSeen:
    """A file of the data, as the node sees it."""

    dataset: str
    url: str
    seconds: float = 0.0
    entries: int = 0
    problem: str = ""


@dataclass(frozen=True)
class CredentialSeen:
    """A credential, as the node has it."""

    type: str
    mode: int = 0
    """Permissions of its file."""
    seconds_left: float | None = None
    """Until it ends, by the clock of the node."""
    problem: str = ""


@dataclass(frozen=True)
class Loaded:
    """A module or plugin that was imported, or why not."""

    name: str
    seconds: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class NodeReport:
    """What a probe found on its node."""

    pool: str
    token: str
    host: str
    python: str
    executable: str
    cpus: int
    memory: int
    """Bytes; 0 where it cannot be told."""
    gpus: tuple[str, ...] = ()
    """As CUDA calls those that this job may use."""
    gpu_models: tuple[str, ...] = ()
    """Of the GPUs that the driver of the node knows, the job's or not."""
    packages: Mapping[str, str | None] = field(default_factory=dict)
    """Name → version; None where it is missing."""
    modules: tuple[Loaded, ...] = ()
    plugins: tuple[Loaded, ...] = ()
    scratch: FolderSeen = FolderSeen("")
    folder: FolderSeen = FolderSeen("")
    credentials: tuple[CredentialSeen, ...] = ()
    authorities: str = ""
    """The folder of certificate authorities that software finds there; empty without one."""
    files: tuple[FileSeen, ...] = ()
    no_connection: str = ""
    """Why the driver could not be reached; empty where it was, or was not to be."""
    seconds: float = 0.0


def as_word(question: Question) -> str:
    """A question as one word of a command: it must not depend on files that the node may not see."""
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(asdict(question), default=_plain).encode())).decode()


def _plain(value: object) -> str:
    """Sources are bytes: a character each."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def from_word(word: str) -> Question:
    """The question that such a word stands for."""
    asked: dict[str, Any] = json.loads(zlib.decompress(base64.urlsafe_b64decode(word)))
    asked = {key: tuple(value) if isinstance(value, list) else value for key, value in asked.items()}
    asked["plugins"] = tuple(tuple(one) for one in asked["plugins"])
    asked["sources"] = tuple(
        SourceFile(**one | {"source": one["source"].encode("latin-1")}) for one in asked["sources"]
    )
    asked["credentials"] = tuple(CredentialAsked(**one) for one in asked["credentials"])
    asked["files"] = tuple(FileAsked(**one) for one in asked["files"])
    return Question(**asked)


def as_line(report: NodeReport) -> str:
    """A report as one line."""
    return json.dumps(asdict(report))
