"""Let a function that was written for FAST-HEP be a source: it gives all events of a file, or generates them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from cenote.analysis.operations.support.events import Column, flat
from cenote.analysis.operations.support.fasthep_function import Described, described_as, stream_of
from cenote.analysis.sources.interface import ColumnInfo, FileInfo, Source, known_column
from cenote.analysis.sources.support.files import explained, stamp_of
from cenote.common import errors

GENERATED = "generated://"
"""How the file of a source is called that needs none."""
FILES_KEPT = 2
"""Per process: the next range is mostly one of the same file."""


class FasthepSource(Described, Source):
    """A function `f(*, <params>, ctx) -> events` of a package that was written for FAST-HEP.

    It is called once for each file in a process, and told of the file alone: `ctx["dataset"]["files"]`.
    """

    word: ClassVar[str] = "source"

    @classmethod
    def own_dataset(cls, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """One that is called as its settings say."""
        kind = settings.get("eventtype") or settings.get("event_type") or "mc"
        return {"name": str(settings.get("dataset") or "generated"), "files": (GENERATED,), "eventtype": kind}

    def stamp(self, url: str) -> str:
        """Of the file, if it is one; what is generated depends on settings and code alone."""
        return stamp_of(url) if "://" not in url else url

    def files_behind(self, url: str) -> tuple[str, ...]:
        """None of what is generated."""
        return () if url == GENERATED else (url,)

    def describe(self, url: str) -> FileInfo:
        """What the function gives has it all."""
        with explained(url, errors.BAD_INPUT):
            events = _events(self, url, self.stamp(url))
            columns = {name: _described(events[name]) for name in events.fields}
            return FileInfo(url, 0, self.stamp(url), len(events), columns)

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """These events of all."""
        with explained(url, errors.UNREADABLE_INPUT):
            events = _events(self, url, self.stamp(url))
            return {name: flat(events[known_column(name, events.fields, url)][start:stop]) for name in columns}


@lru_cache(maxsize=FILES_KEPT)
def _events(source: FasthepSource, url: str, stamp: str) -> Any:  # noqa: ARG001  # a file that was rewritten is read again
    files = [] if url == GENERATED else [url]
    return stream_of(source.call({"dataset": {"files": files}, "files": files}))


def _described(column: Any) -> ColumnInfo:
    """Records are no columns."""
    reason = "holds records, which no column of numbers or texts can hold" if column.fields else ""
    return ColumnInfo(str(column.type.content), max(1, int(column.nbytes)), reason)


def adapted(
    function: Callable[..., Any], name: str, what: str, description: Mapping[str, Any] | None = None
) -> type[FasthepSource]:
    """A source of a function. Raises `bad-plugin` where nothing, or something else, is said of it."""
    hint = "write a class derived from cenote.analysis.sources.interface.Source"
    return described_as(FasthepSource, function, name, kind="source", what=what, hint=hint, description=description)
