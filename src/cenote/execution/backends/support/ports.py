"""Read ports and addresses as people write them: `8786`, `20000-20100`, `driver.example:8786`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

ANY_PORT = range(1)
"""Whichever is free: what the system calls port 0."""
_HIGHEST = 65535
_FORMS = "write one port (8786) or a range (20000-20100)"
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(?P<port>\d{1,5}))?")


def _parsed_ports(value: Any) -> range:  # Any: whatever the YAML holds
    if isinstance(value, range):
        return value
    match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", str(value)) if not isinstance(value, bool) else None
    if match is None:
        raise _refused(f"{value!r} is not a port: {_FORMS}")
    first, last = int(match[1]), int(match[2] or match[1])
    if last > _HIGHEST or (match[2] and first == 0):
        raise _refused(f"{value!r}: ports are numbers from 1 to {_HIGHEST}")
    if last < first:
        raise _refused(f"{value!r} ends before it begins: did you mean {last}-{first}?")
    return range(first, last + 1)


def _parsed_address(value: Any) -> str:  # Any: whatever the YAML holds
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match["port"] or 1) not in range(1, _HIGHEST + 1):
        raise _refused(f"{value!r} is not an address: write a host, or a host and a port (driver.example:8786)")
    return match[0]


def _refused(words: str) -> PydanticCustomError:
    return PydanticCustomError("network", "{problem}", {"problem": words})


def ports_in_words(ports: range) -> str:
    """range(20000, 20101) → `20000-20100`."""
    return str(ports[0]) if len(ports) == 1 else f"{ports[0]}-{ports[-1]}"


Ports = Annotated[
    range,
    BeforeValidator(_parsed_ports),
    PlainSerializer(ports_in_words),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["20000-20100", 8786]}),
]
"""One port or several, written as `8786` or `20000-20100`; 0 is any."""

Address = Annotated[
    str,
    BeforeValidator(_parsed_address),
    WithJsonSchema({"type": "string", "examples": ["driver.example:8786"]}),
]
"""A host, with or without a port."""


def has_port(address: str) -> bool:
    """Whether an address that was read above names a port."""
    match = _ADDRESS.fullmatch(address)
    return match is not None and match["port"] is not None
