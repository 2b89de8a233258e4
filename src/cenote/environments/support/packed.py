"""Share what packed environments have in common: packed once, sent, and unpacked on the node."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from cenote.environments.support.on_node import unpacked_on_node
from cenote.environments.support.with_code import NOT_YET, EnvironmentWithCode, described_code
from cenote.launch import Launch
from cenote.packing.archive import ANY_PLATFORM, Archive
from cenote.packing.code import CODE, CodeProject, needed_code
from cenote.packing.prefixes.pack import pack_prefix
from cenote.packing.prefixes.prefix import PLACEHOLDER, FilledPrefix
from cenote.packing.progress import Progress
from cenote.packing.software import Software, software_of
from cenote.packing.stock import Pack, Packed, Stock, StockRecord, Wanted
from cenote.plugins.kinds import PluginKind


class PackedEnvironment(EnvironmentWithCode):
    """A prefix that is packed on this machine and unpacked on each node. A kind says what is in it."""

    exclude: tuple[str, ...] = ()
    """Patterns of files to leave out: `share/doc/*`."""
    unmoved: tuple[str, ...] = ()
    """Patterns of compiled files that may go on holding the path of the prefix: they do not need it on nodes."""

    _records: tuple[StockRecord, ...] = PrivateAttr(())
    """What was prepared."""

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

    def _edited(self) -> Iterable[CodeProject]:
        """Projects whose code the prefix only links to."""
        return ()

    def prepare(self, progress: Progress) -> None:
        """Pack it, unless that is done, and the code that travels beside it."""
        stock = Stock()
        own = self._obtained(stock, self._wanted(), self._pack_own(progress), progress)
        code = needed_code(_software(own), self._edited())
        records = [own]
        if code:
            records.append(self._obtained_code(stock, code, progress))
        self._copied(map(stock.archive, records), progress)
        self._records = tuple(records)

    def complete(self, launch: Launch) -> Launch:
        """With its archives unpacked on the node, and its Python."""
        archives = self._as_nodes_see(self._archives())
        return unpacked_on_node(launch, archives, scratch=self.scratch, variables=self.variables)

    def describe(self) -> Mapping[str, Any]:
        """Its digests, packages, Python and platform."""
        own, *code = self._known() or (None,)
        if own is None:
            return {"source": self._source(), "digest": NOT_YET}
        facts = {"source": self._source(), "digest": own.digest, "size": own.size, "python": own.python}
        return {**facts, "platform": own.platform, **own.facts, "packages": own.packages, **described_code(code)}

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

    def _wanted(self) -> Wanted:
        content = "\0".join((self._key(), *self.exclude, "", *self.unmoved))
        return Wanted(self._kind(), content, self._compression, self._source())

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


def _software(record: StockRecord) -> Software:
    return Software(record.python, record.platform, record.packages)
