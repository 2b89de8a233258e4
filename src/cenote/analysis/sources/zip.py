"""The source `zip`: several sources side by side, event by event. `joins:` makes one of each of its entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import ColumnInfo, FileInfo, Source, flat_name, path_name
from cenote.common import errors
from cenote.common.errors import Problem
from cenote.common.text import did_you_mean, listed
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.settings import Settings


class ZipInput(Settings):
    """One of the sources."""

    prefix: str
    """Its columns are called `<prefix>_<column>`; with an empty one, as they are."""
    kind: str = "root_tree"
    """The source."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Its own settings."""
    file: str | None = None
    """Where its events are in files of their own: a path with `{name}`, `{stem}` and `{folder}` of the dataset's file.
    A relative one is beside it."""

    @cached_property
    def source(self) -> Source:
        """The source itself."""
        made: Source = registry.make(PluginKind.SOURCE, self.kind, self.settings)
        return made

    def url(self, url: str) -> str:
        """The file of its events that goes with a file of the dataset."""
        if self.file is None:
            return url
        path = PurePosixPath(url)
        folder = url.removesuffix(path.name).rstrip("/")
        named = self.file.replace("{folder}", folder).replace("{name}", path.name).replace("{stem}", path.stem)
        is_whole = named.startswith("/") or "://" in named or "{folder}" in self.file
        return named if is_whole or not folder else f"{folder}/{named}"

    def own_name(self, flat: str) -> str | None:
        """The name of its own column that is called so here; None where it cannot be one of its columns."""
        if not self.prefix:
            return flat
        start = f"{flat_name(self.prefix)}_"
        return flat.removeprefix(start) if flat.startswith(start) else None

    def name_here(self, own: str) -> str:
        """What its column is called here."""
        return f"{flat_name(self.prefix)}_{flat_name(path_name(own))}" if self.prefix else own


class ZipSource(Source):
    """Reads several trees, or files, as one: the first event of each together, then the second, and so on."""

    example: ClassVar[str] = """
    sources:
      events:
        kind: zip
        inputs:
          - {prefix: "", settings: {tree: Events}}
          - {prefix: l1, settings: {tree: l1UpgradeTree}}
    """

    inputs: Annotated[tuple[ZipInput, ...], Field(min_length=1)]
    """The sources, in order."""
    on_mismatch: Literal["error", "warn"] = "error"
    """Where they have different numbers of events: an error, or a warning and only as many as all of them have."""

    @model_validator(mode="after")
    def _different(self) -> Self:
        prefixes = [one.prefix for one in self.inputs]
        if twice := next((prefix for prefix in prefixes if prefixes.count(prefix) > 1), None):
            raise PydanticCustomError("twice", "two inputs have the prefix '{prefix}'", {"prefix": twice})
        return self

    def stamp(self, url: str) -> str:
        """Of all files together."""
        return _together({one.url(url): one.source.stamp(one.url(url)) for one in self.inputs})

    def current_stamp(self, url: str) -> str:
        """The same."""
        return _together({one.url(url): one.source.current_stamp(one.url(url)) for one in self.inputs})

    def files_behind(self, url: str) -> tuple[str, ...]:
        """Those of all, each once."""
        return tuple(dict.fromkeys(file for one in self.inputs for file in one.source.files_behind(one.url(url))))

    def describe(self, url: str) -> FileInfo:
        """The columns of all; as many events as each of them has."""
        infos = [(one, one.source.describe(one.url(url))) for one in self.inputs]
        entries = {info.entries for _, info in infos}
        if len(entries) > 1 and self.on_mismatch == "error":
            words = f"{url}: the sources side by side have different numbers of events: {self.counted(infos)}"
            raise errors.error(
                errors.BAD_INPUT, words, hint="`on_mismatch: warn` reads as many events as the shortest one has"
            )
        first = infos[0][1]
        size = sum({info.url: info.size for _, info in infos}.values())
        shared = [place for place in first.boundaries if place < min(entries)]
        boundaries = [*shared, min(entries)] if first.boundaries else ()
        stamp = _together({info.url: info.stamp for _, info in infos}) or first.stamp
        contents = [info.content for _, info in infos]
        content = "+".join(contents) if all(contents) else ""
        return FileInfo(url, size, stamp, min(entries), self._columns(url, infos), boundaries, content=content)

    @staticmethod
    def counted(infos: Iterable[tuple[ZipInput, FileInfo]]) -> str:
        """`l1 200, reco 190`."""
        return ", ".join(f"{one.prefix or 'the first'} {info.entries}" for one, info in infos)

    def _columns(self, url: str, infos: Iterable[tuple[ZipInput, FileInfo]]) -> dict[str, ColumnInfo]:
        found: dict[str, ColumnInfo] = {}
        for one, info in infos:
            for own, column in info.columns.items():
                name = one.name_here(own)
                if name in found:
                    words = f"{url}: two of the sources side by side have a column '{name}'"
                    raise errors.error(errors.COLUMN_CLASH, words, hint="give one of them a `prefix`")
                found[name] = replace(column, leaf=one.name_here(column.leaf)) if column.leaf else column
        return found

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Each source reads its own."""
        left = {name: flat_name(path_name(name)) for name in columns}
        found: dict[str, Column] = {}
        for one in sorted(self.inputs, key=lambda one: -len(one.prefix)):
            own = {name: meant for name, flat in left.items() if (meant := one.own_name(flat)) is not None}
            if own:
                read = one.source.read(one.url(url), list(dict.fromkeys(own.values())), start, stop)
                found |= {name: read[meant] for name, meant in own.items()}
            left = {name: flat for name, flat in left.items() if name not in own}
        if left:
            name = next(iter(left))
            prefixes = [one.prefix for one in self.inputs]
            hint = did_you_mean(name.partition(".")[0], prefixes) or f"prefixes: {listed(prefixes)}"
            raise errors.CenoteError(Problem(errors.UNREADABLE_INPUT, f"{url} has no column '{name}'", hint=hint))
        return {name: found[name] for name in columns}


def _together(stamps: Mapping[str, str]) -> str:
    """File → its stamp. Unknown where one of them is."""
    return "+".join(stamps.values()) if all(stamps.values()) else ""
