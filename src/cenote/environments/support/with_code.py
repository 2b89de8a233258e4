"""Share what environments have in common that send code beside them: Cenote itself, and what is edited here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr, field_validator

from cenote import errors, storage
from cenote.environments.interface import Environment
from cenote.errors import Problem
from cenote.launch import can_name_variable
from cenote.packing.archive import ANY_PLATFORM, Archive, Compression
from cenote.packing.code import CODE, CodeProject, code_content, pack_code
from cenote.packing.locks import InUse
from cenote.packing.progress import PackingStep, Progress
from cenote.packing.software import Software
from cenote.packing.stock import Pack, Packed, Stock, StockRecord, Wanted
from cenote.packing.write import best_compression

_AT_ONCE = 1 << 22
NOT_YET = "not-packed-yet"
"""Instead of the digest of an archive that is still to be made."""


class EnvironmentWithCode(Environment):
    """An environment whose workers unpack archives on their nodes: at least one of code."""

    scratch: str | None = None
    """A folder of the node for what is unpacked, with `$VARIABLES` of the node; without it, one in the node's usual
    place for temporary files."""
    folder: str | None = None
    """A folder that nodes see too: archives are copied there, and nodes read them there."""
    compression: Compression | None = None
    """`gzip` for nodes without `zstd`; without it, the best that is installed here."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Environment variables for workers."""

    _held: list[InUse] = PrivateAttr(default_factory=list)

    @field_validator("scratch")
    @classmethod
    def _anywhere_the_same(cls, written: str | None) -> str | None:
        if written is not None and not written.startswith(("/", "~", "$")):
            raise ValueError(f"should be an absolute path on the node, not '{written}'")
        return written

    @field_validator("variables")
    @classmethod
    def _can_be_set(cls, written: dict[str, str]) -> dict[str, str]:
        if wrong := [name for name in written if not can_name_variable(name)]:
            raise ValueError(f"'{wrong[0]}' cannot name an environment variable")
        return written

    def check(self) -> Iterable[Problem]:
        """Whether archives can be written."""
        if self.compression == "zstd" and best_compression() != "zstd":
            yield Problem(
                errors.ENVIRONMENT,
                "`compression: zstd` needs a package that is not installed: zstandard",
                hint="install cenote[environments], or leave `compression` out",
            )

    @property
    def _compression(self) -> Compression:
        return self.compression or best_compression()

    def _obtained(self, stock: Stock, wanted: Wanted, pack: Pack, progress: Progress) -> StockRecord:
        """From the stock, where it stays as long as this process needs it."""
        while True:
            record = stock.obtain(wanted, pack, progress)
            with suppress(FileNotFoundError):  # somebody cleaned up in between
                self._held.append(stock.hold(record))
                return record

    def _obtained_code(self, stock: Stock, code: list[CodeProject], progress: Progress) -> StockRecord:
        """The archive of these projects."""

        def pack(file: Path, staging: Path) -> Packed:
            written = pack_code(code, file, self._compression, staging, progress)
            software = Software(platform=ANY_PLATFORM, packages={one.name: one.version for one in code})
            return Packed(written, software)

        return self._obtained(stock, self._wanted_code(code), pack, progress)

    def _wanted_code(self, code: list[CodeProject]) -> Wanted:
        names = ", ".join(project.name for project in code)
        return Wanted(CODE, code_content(code), self._compression, names)

    def _stand_in(self, kind: str) -> Archive:
        """For a launch that is only shown."""
        return Archive(Stock().folder / f"{kind}-{NOT_YET}", NOT_YET, 0, 0, self._compression)

    def _copied(self, archives: Iterable[Archive], progress: Progress) -> None:
        """To the folder that nodes see, where there is one."""
        if self.folder is not None:
            for archive in archives:
                _copy(archive, self.absolute_path(self.folder), progress)

    def _as_nodes_see(self, archives: Sequence[Archive]) -> Sequence[Archive]:
        """In that folder."""
        if self.folder is None:
            return archives
        shared = self.absolute_path(self.folder)
        return [replace(archive, file=shared / archive.file.name) for archive in archives]


def described_code(records: Iterable[StockRecord]) -> dict[str, Any]:  # Any: for JSON
    """What is recorded of archives of code."""
    return {one.kind: {"digest": one.digest, "packages": one.packages} for one in records}


def _copy(archive: Archive, folder: Path, progress: Progress) -> None:
    """To a folder that nodes see, unless it is there."""
    target = folder / archive.file.name
    if storage.is_file(target) and target.stat().st_size == archive.size:
        return
    with storage.appearing(target) as temporary, archive.file.open("rb") as source, temporary.open("wb") as copy:
        while part := source.read(_AT_ONCE):
            copy.write(part)
            progress(PackingStep(f"copying to {folder}", copy.tell(), archive.size))
