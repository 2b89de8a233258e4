"""Keep archives in the user's cache: what was packed once is found again by its key."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from pathlib import Path

import msgspec

from cenote.common import errors, storage
from cenote.common.cache_file import cache_folder
from cenote.common.values import dataclass
from cenote.execution.packing.archive import (
    Archive,
    Compression,
    InUse,
    PackingStep,
    Progress,
    locked,
    locked_at_once,
    remove_unused,
)
from cenote.execution.packing.software import Software
from cenote.execution.packing.write import ENDINGS, Written

_AT_ONCE = 1 << 22
_RECORD, _LOCK = ".json", ".lock"


class StockRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an archive in the stock."""

    kind: str
    """The environment that it is of: `packed-conda`; `code` for code alone."""
    key: str
    """By which it is found: a digest of all that its content depends on."""
    digest: str
    size: int
    unpacked: int
    compression: Compression
    platform: str
    placeholder: str
    python: str
    """The version; empty where there is no Python in it."""
    packages: dict[str, str]
    facts: dict[str, str]
    """What else its kind records: the hash of a lock."""
    source: str
    """What it was made from, for people."""
    made_at: float
    """Seconds since 1970."""
    used_at: float

    @property
    def file_name(self) -> str:
        """Of the archive."""
        return f"{self.kind}-{self.digest}{ENDINGS[self.compression]}"


@dataclass(frozen=True)
class Wanted:
    """What somebody wants packed."""

    kind: str
    content: str
    """A text that changes when the content would."""
    compression: Compression
    source: str

    @property
    def key(self) -> str:
        """By which it is found in the stock."""
        text = "\0".join((_way_of_packing(), self.kind, self.compression, self.content))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


@cache
def _way_of_packing() -> str:
    """Changes with the code that packs: what another version packed may be put together otherwise."""
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()


@dataclass(frozen=True)
class Packed:
    """What was packed."""

    written: Written
    software: Software = field(default_factory=Software)
    placeholder: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


Pack = Callable[[Path, Path], Packed]
"""Writes an archive to the first path; the second is an empty folder for files on the way."""


class Stock:
    """A folder with archives and records of them; only its user sees what is in there."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder() / "environments"

    def find(self, wanted: Wanted) -> StockRecord | None:
        """What was packed for this, if it is still there and whole."""
        record = self._read(self._record_of(wanted.key))
        return record if record is not None and self._is_there(record) else None

    def obtain(self, wanted: Wanted, pack: Pack, progress: Progress) -> StockRecord:
        """What is wanted, packed now unless it is there. Of several processes that want it, one packs."""
        with self._writable():

            def wait() -> None:
                progress(PackingStep("waiting for another process that packs the same"))

            record = self.find(wanted)
            if record is None:
                with locked(self.folder / f"{wanted.key}{_LOCK}", wait):
                    record = self.find(wanted) or self._packed(wanted, pack)
            record = msgspec.structs.replace(record, used_at=time.time())
            self._keep(record)
            return record

    @contextmanager
    def _writable(self) -> Iterator[None]:
        another = "name another folder for caches by the variable CENOTE_CACHE"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not storage.is_own_folder(self.folder.lstat()):
                raise errors.error(errors.NO_ACCESS, f"{self.folder} is not a folder of your own", hint=another)
            self.folder.chmod(0o700)
        except OSError as problem:
            kind = storage.KINDS.get(problem.errno or 0, errors.NO_ACCESS)
            words = f"packed environments would be kept in {self.folder}: {problem.strerror}"
            raise errors.error(kind, words, hint=another) from problem
        with storage.writing(self.folder):
            yield

    def _packed(self, wanted: Wanted, pack: Pack) -> StockRecord:
        self._remove_staging(wanted.key)  # of a process that was killed: we hold the lock
        staging = Path(tempfile.mkdtemp(prefix=f"{wanted.key}-", dir=self.folder))
        try:
            file = staging / "archive"
            (staging / "work").mkdir()
            with storage.explained():  # what cannot be read is elsewhere
                packed = pack(file, staging / "work")
            now = time.time()
            record = StockRecord(
                kind=wanted.kind,
                key=wanted.key,
                digest=packed.written.digest,
                size=packed.written.size,
                unpacked=packed.written.unpacked,
                compression=wanted.compression,
                platform=packed.software.platform,
                placeholder=packed.placeholder,
                python=packed.software.python,
                packages=packed.software.packages,
                facts=dict(packed.facts),
                source=wanted.source,
                made_at=now,
                used_at=now,
            )
            self._keep(record)  # first: an archive without a record is a stray
            file.replace(self.folder / record.file_name)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return record

    def archive(self, record: StockRecord) -> Archive:
        """The file that a record is about."""
        return Archive(
            file=self.folder / record.file_name,
            digest=record.digest,
            size=record.size,
            unpacked=record.unpacked,
            compression=record.compression,
            platform=record.platform,
            placeholder=record.placeholder,
        )

    def hold(self, record: StockRecord) -> InUse:
        """Keep an archive from being cleaned away as long as what is returned is there. Raises FileNotFoundError."""
        return InUse(self.folder / record.file_name)

    def records(self) -> list[StockRecord]:
        """All that is there, the last used first."""
        found = [record for file in self.folder.glob(f"*{_RECORD}") if (record := self._read(file)) is not None]
        return sorted(found, key=lambda record: (-record.used_at, record.key))

    def damage(self, record: StockRecord, progress: Progress) -> str:
        """What is wrong with an archive, which is read for it; empty for nothing."""
        file = self.folder / record.file_name
        if not file.is_file():
            return "the archive is missing"
        digest, done = hashlib.sha256(), 0
        with storage.explained(), file.open("rb") as opened:
            while part := opened.read(_AT_ONCE):
                digest.update(part)
                done += len(part)
                progress(PackingStep(f"reading {record.kind} {record.digest[:12]}", done, record.size))
        return "" if digest.hexdigest() == record.digest else "the archive is damaged: its digest is another one"

    def forget(self, record: StockRecord) -> None:
        """It is packed anew when it is wanted next."""
        self._record_of(record.key).unlink(missing_ok=True)

    def clean(self, is_old: Callable[[StockRecord], bool]) -> Cleaned:
        """Remove archives that are old, and what processes left that were killed; nothing that is in use."""
        if not self.folder.is_dir():
            return Cleaned()
        with self._writable():
            tried = [(record, self._remove(record)) for record in self.records() if is_old(record)]
            removed = tuple(record for record, is_gone in tried if is_gone)
            kept = tuple(record for record, is_gone in tried if not is_gone)
            return Cleaned(removed, kept, self._remove_strays())

    def _remove(self, record: StockRecord) -> bool:
        with locked_at_once(self.folder / f"{record.key}{_LOCK}") as taken:
            shared = any(one.file_name == record.file_name and one.key != record.key for one in self.records())
            if taken and (shared or remove_unused(self.folder / record.file_name)):
                self.forget(record)
                return True
        return False

    def _remove_strays(self) -> int:
        """Bytes of what no record is about, and nobody is writing."""
        known = {record.file_name for record in self.records()}
        freed = 0
        for path in sorted(self.folder.iterdir()):
            key = path.name.partition(".")[0].partition("-")[0] if path.is_dir() else ""
            if key:
                with locked_at_once(self.folder / f"{key}{_LOCK}") as taken:
                    if taken:
                        freed += _bytes_below(path)
                        shutil.rmtree(path, ignore_errors=True)
            elif path.name.endswith(tuple(ENDINGS.values())) and path.name not in known:
                size = path.stat().st_size
                freed += size if remove_unused(path) else 0
        return freed

    def _remove_staging(self, key: str) -> None:
        for left in self.folder.glob(f"{key}-*"):
            shutil.rmtree(left, ignore_errors=True)

    def _record_of(self, key: str) -> Path:
        return self.folder / f"{key}{_RECORD}"

    def _keep(self, record: StockRecord) -> None:
        text = msgspec.json.format(msgspec.json.encode(record), indent=1).decode()
        storage.write_text(self._record_of(record.key), text)

    def _read(self, file: Path) -> StockRecord | None:
        """None where there is none, or one of another version."""
        try:
            return msgspec.json.decode(file.read_bytes(), type=StockRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def _is_there(self, record: StockRecord) -> bool:
        file = self.folder / record.file_name
        return file.is_file() and file.stat().st_size == record.size


@dataclass(frozen=True)
class Cleaned:
    """What was removed."""

    removed: Sequence[StockRecord] = ()
    in_use: Sequence[StockRecord] = ()
    """What would have been removed, but a run uses it, or it is being packed."""
    strays: int = 0
    """Bytes of files that belonged to nothing."""


def _bytes_below(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
