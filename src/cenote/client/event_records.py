"""Define what a service tells of as it happens."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from cenote.client.records import LivePoolRecord, QueuedTaskRecord, ServiceRecord

EventKind = Literal["service", "pool", "task", "output", "reset"]


class OutputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a task printed."""

    task: str
    stream: Literal["stdout", "stderr"]
    offset: int
    """Of the first byte, in all that the task wrote to this stream."""
    data: bytes


class HeardEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened."""

    id: str
    """To go on after it: `events(after=…)`."""
    kind: EventKind
    """`reset` is for those who heard nothing for too long: what they know may be wrong, so they ask anew."""
    record: LivePoolRecord | QueuedTaskRecord | OutputRecord | ServiceRecord | None = None


_RECORDS: dict[str, Any] = {  # Any: types of structs
    "service": ServiceRecord,
    "pool": LivePoolRecord,
    "task": QueuedTaskRecord,
    "output": OutputRecord,
}


class EventReader:
    """Reads lines of server-sent events."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def read(self, line: str) -> HeardEvent | None:
        """The event that this line completes, if it does. Kinds that this version does not know are left out."""
        text = line.rstrip("\r\n")
        if text:
            name, _, value = text.partition(":")
            if name:
                self._fields[name] = value.removeprefix(" ")
            return None
        found, self._fields = self._fields, {}
        kind = found.get("event", "")
        if kind == "reset":
            return HeardEvent(id=found.get("id", ""), kind="reset")
        if kind not in _RECORDS:
            return None
        record = msgspec.json.decode(found["data"], type=_RECORDS[kind])
        return HeardEvent(id=found.get("id", ""), kind=msgspec.convert(kind, EventKind), record=record)
