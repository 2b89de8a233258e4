"""Share what packed environments have in common: packed once, sent, and unpacked on the node."""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr, field_validator

from cenote.common import errors, storage
from cenote.common.errors import Problem
from cenote.common.software import PREFIX_VARIABLE
from cenote.execution.environments.interface import Environment
from cenote.execution.launch import Launch, NodeVariable, Part, Sent, SentFile, Word, can_name_variable, shell_word
from cenote.execution.packing.archive import ANY_PLATFORM, Archive, Compression, InUse, PackingStep, Progress
from cenote.execution.packing.code import CODE, CodeProject, code_content, needed_code, pack_code
from cenote.execution.packing.prefixes.library_paths import PLACEHOLDER, FilledPrefix
from cenote.execution.packing.prefixes.pack import pack_prefix
from cenote.execution.packing.software import Software, software_of
from cenote.execution.packing.stock import Pack, Packed, Stock, StockRecord, Wanted
from cenote.execution.packing.write import best_compression
from cenote.execution.start_failures import StartFailure
from cenote.language.plugins.kinds import PluginKind

# Share what environments have in common that send code beside them: Cenote itself, and what is edited here.


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


# Have packed environments unpacked on the node before a worker starts there.


UNPACK = Path(__file__).with_name("unpack.sh")
"""What unpacks, in the language of every node."""
SCRATCH = "CENOTE_SCRATCH"
"""Variable with the node's folder for environments, for `UNPACK`; where it is empty, it chooses one."""
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OF_THIS_MACHINE = (
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_*", "PIXI_*", SCRATCH, PREFIX_VARIABLE),
    # not all that begin so: HTCondor says by PYTHON_CPU_COUNT how much a job may use
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX"),
    # by which `module load` would take for loaded what is not in the usual PATH
    *("LOADEDMODULES", "_LMFILES_", "_ModuleTable*", "__LMOD_REF_COUNT_*", "__MODULES_*"),
)
"""Variables about software that is elsewhere than in the environment."""
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})|\$")


def unpacked_on_node(
    launch: Launch, archives: Sequence[Archive], *, scratch: str | None, variables: Mapping[str, str]
) -> Launch:
    """A launch whose worker runs in these archives, unpacked one after the other: the first has Python.

    `scratch` is a folder of the node with its `$VARIABLES`; None for one that the node has. Nothing of the software of
    this machine comes along: `PATH` is the node's usual one, with the archives before it.
    """
    launch = alone_on_node(launch, variables)
    launch = replace(launch, interpreter=((NodeVariable(PREFIX_VARIABLE), "/bin/python"),))
    if not archives:
        return launch
    return replace(
        launch,
        setup=(*launch.setup, *_lines(archives, scratch)),
        files=(*launch.files, SentFile(UNPACK), *(SentFile(archive.file, on_demand=True) for archive in archives)),
    )


def alone_on_node(launch: Launch, variables: Mapping[str, str]) -> Launch:
    """Without anything of the software of this machine, and with these variables."""
    own = {"PATH": USUAL_PATH, "PYTHONNOUSERSITE": "1", **variables}
    return replace(
        launch,
        variables={**{name: (value,) for name, value in own.items()}, **launch.variables},
        unset=tuple(dict.fromkeys((*launch.unset, *OF_THIS_MACHINE))),
    )


def script_lines(script: Path, does: str) -> tuple[Word, Word]:
    """Lines of shell that read a script which is sent along, or end with the reason why there is none."""
    sent, code = Sent(script.name), StartFailure.NO_ARCHIVE.value.code
    missing = f"the node does not see the file that {does}"
    return ("[ -r ", sent, f" ] || {{ echo 'cenote: {missing}' >&2; exit {code}; }}"), (". ", sent)


def _lines(archives: Sequence[Archive], scratch: str | None) -> tuple[Word, ...]:
    lines: list[Word] = [*script_lines(UNPACK, "unpacks environments")]
    if scratch is not None:
        folder, needed = _filled_on_node(scratch)
        names = "".join(f" {name}" for name in needed)
        lines.append((f"cenote_variables{names}; {SCRATCH}={shell_word(folder)}",))
    return (*lines, *(_unpack_line(archive) for archive in archives))


def _unpack_line(archive: Archive) -> Word:
    facts = (archive.digest, archive.size, archive.unpacked, archive.compression, archive.platform)
    longest = len(archive.placeholder.encode())
    return ("cenote_unpack ", Sent(archive.file.name), "".join(f" {fact}" for fact in (*facts, longest)))


def _filled_on_node(folder: str) -> tuple[Word, list[str]]:
    """A folder with the variables of the node, and their names."""
    if folder == "~" or folder.startswith("~/"):
        folder = f"${{HOME}}{folder[1:]}"
    parts: list[Part] = []
    names = []
    at = 0
    for found in _VARIABLE.finditer(folder):
        name = found[1] or found[2]
        parts += [folder[at : found.start()], NodeVariable(name) if name else "$"]
        names += [name] if name else []
        at = found.end()
    return (*parts, folder[at:]), names


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


# Share what environments have in common that nodes have already: only code is sent beside them.


USE = Path(__file__).with_name("use.sh")
"""What finds and activates software on the node, in the language of every node."""


class PresentEnvironment(EnvironmentWithCode):
    """Software that is on the nodes. Cenote travels beside it where it has another version, or nobody knows which."""

    compression: Compression | None = None
    """Of the code that is sent: `zstd`, or `gzip` as long as nobody asks for more, since every node has that."""

    _code: StockRecord | None = PrivateAttr(None)

    @abstractmethod
    def _software(self) -> Software | None:
        """What is in it; None where this machine cannot tell."""

    @property
    def _compression(self) -> Compression:
        return self.compression or "gzip"

    def prepare(self, progress: Progress) -> None:
        """Pack the code that travels beside it, unless that is done."""
        if code := needed_code(self._software()):
            stock = Stock()
            self._code = self._obtained_code(stock, code, progress)
            self._copied([stock.archive(self._code)], progress)

    def _used_on_node(self, launch: Launch, lines: Sequence[Word]) -> Launch:
        """With these lines, which may use `USE`, and then with the code beside it."""
        launch = alone_on_node(launch, self.variables)
        read = script_lines(USE, "finds its software")
        launch = replace(launch, setup=(*launch.setup, *read, *lines), files=(*launch.files, SentFile(USE)))
        archives = self._as_nodes_see(self._archives())
        return unpacked_on_node(launch, archives, scratch=self.scratch, variables=self.variables)

    def _archives(self) -> list[Archive]:
        if self._code is not None:
            return [Stock().archive(self._code)]
        code = needed_code(self._software())
        known = Stock().find(self._wanted_code(code)) if code else None
        return [Stock().archive(known)] if known else [self._stand_in(CODE)] if code else []

    def _described(self) -> dict[str, Any]:  # Any: for JSON
        return described_code([] if self._code is None else [self._code])


def digest_of(software: Software) -> str:
    """Changes when the version of a package does."""
    lines = [f"python {software.python}", *(f"{name} {version}" for name, version in software.packages.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
