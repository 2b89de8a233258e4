"""Say which constants of a task cannot be environment variables. Light, because every agent imports it."""

from __future__ import annotations

JOB = "JOB_UUID"
"""The variable that is another one in every attempt: by it processes of instances are known, wherever they went."""
OWN = ("INSTANCE_ID", "INSTANCE_COUNT", JOB)
"""Variables that say who an instance is."""
LONGEST_TEXT = 100_000
"""Bytes of a command or a constant: Linux starts no program with a longer argument or variable than 128 KiB."""
RESERVED = "CENOTE_"
"""How variables of ours begin, which instances neither see nor set."""


def why_no_constant(name: str, value: str) -> str:
    """Why it cannot be one; empty where it can."""
    if not (name.isascii() and name.isidentifier()):
        return f"the constant {name!r} cannot name an environment variable"
    if name in OWN or name.startswith(RESERVED):
        return f"the constant {name} has a name that is reserved"
    if "\0" in value:
        return f"the constant {name} holds a NUL, which no environment variable can"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return f"the constant {name} holds something that is not text"
    return (
        f"the constant {name} should have at most {LONGEST_TEXT:,} bytes, not {size:,}" if size > LONGEST_TEXT else ""
    )
