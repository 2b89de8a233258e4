"""Share what packed environments have in common: packed once, sent, and unpacked on the node."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr

from cenote import errors, storage
from cenote.environments.interface import Environment
from cenote.environments.support.on_node import unpacked_on_node
from cenote.errors import Problem
from cenote.launch import Launch
from cenote.packing.archive import ANY_PLATFORM, Archive, Compression
from cenote.packing.code import CODE, Project, code_content, needed_code, pack_code
from cenote.packing.locks import InUse
from cenote.packing.pack_prefix import pack_prefix
from cenote.packing.prefix import PLACEHOLDER, FilledPrefix
from cenote.packing.progress import PackingStep, Progress
from cenote.packing.software import Software, software_of
from cenote.packing.stock import Pack, Packed, Stock, StockRecord, Wanted
from cenote.packing.write import best_compression
from cenote.plugins.kinds import PluginKind

_AT_ONCE = 1 << 22
_NOT_YET = "not-packed-yet"
"""Instead of the digest of an archive that is still to be made."""


class PackedEnvironment(Environment):
    """A prefix that is packed on this machine and unpacked on each node. A kind says what is in it."""

    scratch: str | None = None
    """A folder of the node for unpacked environments, with `$VARIABLES` of the node; without it, one in the node's
    usual place for temporary files."""
    folder: str | None = None
    """A folder that nodes see too: archives are copied there, and nodes read them there."""
    compression: Compression | None = None
    """`gzip` for nodes without `zstd`; without it, the best that is installed here."""
    exclude: tuple[str, ...] = ()
    """Patterns of files to leave out: `share/doc/*`."""
    unmoved: tuple[str, ...] = ()
    """Patterns of compiled files that may go on holding the path of the prefix: they do not need it on nodes."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Environment variables for workers."""

    _records: tuple[StockRecord, ...] = PrivateAttr(())
    """What was prepared."""
    _held: list[InUse] = PrivateAttr(default_factory=list)

    @abstractmethod
    def _key(self) -> str:
        """A text that is cheap to make and changes when the content would: hashes of a lock, stamps of files."""

    @abstractmethod
    def _fill(self, folder: Path, progress: Progress) -> FilledPrefix:
        """A prefix with everything in it: made in this folder, which is empty and goes afterwards, or one that is
        there already. Called where no archive has the key."""

    @abstractmethod
    def _source(self) -> str:
        """What people would say it was made from: the path of a lock or of a prefix."""

    def _kind(self) -> str:
        """Its name in YAML."""
        return PluginKind.ENVIRONMENT.spelled(type(self).__module__.rpartition(".")[2])

    def _edited(self) -> Iterable[Project]:
        """Projects whose code the prefix only links to."""
        return ()

    def check(self) -> Iterable[Problem]:
        """Whether archives can be written."""
        if self.compression == "zstd" and best_compression() != "zstd":
            yield Problem(
                errors.ENVIRONMENT,
                "`compression: zstd` needs a package that is not installed: zstandard",
                hint="install cenote[environments], or leave `compression` out",
            )

    def prepare(self, progress: Progress) -> None:
        """Pack it, unless that is done, and the code that travels beside it."""
        stock = Stock()
        own = self._obtained(stock, self._wanted(), self._pack_own(progress), progress)
        code = needed_code(_software(own), self._edited())
        records = [own]
        if code:
            records.append(self._obtained(stock, self._wanted_code(code), self._pack_code(code, progress), progress))
        if self.folder is not None:
            for record in records:
                _copy(stock.archive(record), self.absolute_path(self.folder), progress)
        self._records = tuple(records)

    def _obtained(self, stock: Stock, wanted: Wanted, pack: Pack, progress: Progress) -> StockRecord:
        """From the stock, where it stays as long as this process needs it."""
        while True:
            record = stock.obtain(wanted, pack, progress)
            with suppress(FileNotFoundError):  # somebody cleaned up in between
                self._held.append(stock.hold(record))
                return record

    def complete(self, launch: Launch) -> Launch:
        """With its archives unpacked on the node, and its Python."""
        archives = self._archives()
        if self.folder is not None:
            shared = self.absolute_path(self.folder)
            archives = [replace(archive, file=shared / archive.file.name) for archive in archives]
        return unpacked_on_node(launch, archives, scratch=self.scratch, variables=self.variables)

    def describe(self) -> Mapping[str, Any]:
        """Its digests, packages, Python and platform."""
        own, *code = self._known() or (None,)
        if own is None:
            return {"source": self._source(), "digest": _NOT_YET}
        facts = {"source": own.source, "digest": own.digest, "size": own.size, "python": own.python}
        packed = {one.kind: {"digest": one.digest, "packages": one.packages} for one in code}
        return {**facts, "platform": own.platform, **own.facts, "packages": own.packages, **packed}

    def _known(self) -> tuple[StockRecord, ...]:
        """What was prepared, or is in the stock; nothing where the environment is still to be packed."""
        if self._records:
            return self._records
        own = Stock().find(self._wanted())
        if own is None:
            return ()
        code = Stock().find(self._wanted_code(needed_code(_software(own), self._edited())))
        return (own, code) if code is not None else (own,)

    def _archives(self) -> list[Archive]:
        stock, known = Stock(), self._known()
        if self._records:
            return [stock.archive(record) for record in known]
        own = known[0] if known else None
        archives = [stock.archive(record) for record in known] or [self._stand_in(self._kind())]
        if len(known) < 2 and needed_code(_software(own) if own else None, self._edited()):
            archives.append(self._stand_in(CODE))
        return archives

    def _stand_in(self, kind: str) -> Archive:
        """For a launch that is only shown."""
        return Archive(Stock().folder / f"{kind}-{_NOT_YET}", _NOT_YET, 0, 0, self._compression)

    @property
    def _compression(self) -> Compression:
        return self.compression or best_compression()

    def _wanted(self) -> Wanted:
        content = "\0".join((self._key(), *self.exclude, "", *self.unmoved))
        return Wanted(self._kind(), content, self._compression, self._source())

    def _wanted_code(self, code: list[Project]) -> Wanted:
        names = ", ".join(project.name for project in code)
        return Wanted(CODE, code_content(code), self._compression, names)

    def _pack_own(self, progress: Progress) -> Pack:
        def pack(file: Path, staging: Path) -> Packed:
            (staging / "prefix").mkdir()
            filled = replace(self._fill(staging / "prefix", progress), exclude=self.exclude, unmoved=self.unmoved)
            software = software_of(filled.folder)
            if filled.platform != ANY_PLATFORM:
                software = replace(software, platform=filled.platform)
            written = pack_prefix(filled, file, self._compression, staging, progress)
            return Packed(written, software, PLACEHOLDER, dict(filled.facts))

        return pack

    def _pack_code(self, code: list[Project], progress: Progress) -> Pack:
        def pack(file: Path, staging: Path) -> Packed:
            written = pack_code(code, file, self._compression, staging, progress)
            software = Software(platform=ANY_PLATFORM, packages={one.name: one.version for one in code})
            return Packed(written, software)

        return pack


def _software(record: StockRecord) -> Software:
    return Software(record.python, record.platform, record.packages)


def _copy(archive: Archive, folder: Path, progress: Progress) -> None:
    """To a folder that nodes see, unless it is there."""
    target = folder / archive.file.name
    if storage.is_file(target) and target.stat().st_size == archive.size:
        return
    with storage.appearing(target) as temporary, archive.file.open("rb") as source, temporary.open("wb") as copy:
        while part := source.read(_AT_ONCE):
            copy.write(part)
            progress(PackingStep(f"copying to {folder}", copy.tell(), archive.size))
