"""Bring the credentials of a pool to its probe, over the connection that only probes of the same driver get, and look
at what arrived.

Nothing outside the standard library is used: a node whose software is incomplete must be able to say so.
"""

from __future__ import annotations

import base64
import json
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from cenote.execution.probe.report import CredentialAsked, CredentialSeen
from cenote.execution.worker.process.credentials import DeliveredCredential

_POOL = "credentials_of"


def request_for(pool: str) -> bytes:
    """The line by which a probe asks its driver for the credentials of its pool."""
    return json.dumps({_POOL: pool}).encode() + b"\n"


def requested_pool(line: bytes) -> str | None:
    """The pool whose credentials a line asks for; None where it is another line."""
    try:
        asked = json.loads(line)
    except ValueError:
        return None
    pool = asked.get(_POOL) if isinstance(asked, dict) else None
    return pool if isinstance(pool, str) else None


def as_answer(credentials: Iterable[DeliveredCredential]) -> bytes:
    """They themselves, as one line."""
    told = [
        {"name": one.name, "content": base64.b64encode(one.content).decode(), "variables": one.variables}
        for one in credentials
    ]
    return json.dumps(told).encode() + b"\n"


def from_answer(line: bytes) -> list[DeliveredCredential]:
    """What `as_answer` wrote. Raises ValueError where it did not."""
    return [
        DeliveredCredential(one["name"], base64.b64decode(one["content"]), one["variables"]) for one in json.loads(line)
    ]


def look_at(asked: CredentialAsked) -> CredentialSeen:
    """The file to which its variable leads on this node."""
    named = os.environ.get(asked.variable)
    if not named:
        return CredentialSeen(asked.type, problem=f"{asked.variable} is not set")
    left = None if asked.ends is None else asked.ends - time.time()
    try:
        with Path(named).open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except OSError as problem:
        return CredentialSeen(asked.type, problem=f"{named}: {problem.strerror}")
    return CredentialSeen(asked.type, mode, left)
