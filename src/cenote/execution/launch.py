"""Describe how a worker is started, as one value that is completed step by step and written down last.

The backend says what runs, the environment with which Python and what comes before it,
and the strategy writes it down for one worker or for many. What differs between workers, or is known on the node
only, stands in words as a blank, never as text that somebody has to find again.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import Enum
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from cenote.common.shell import ALONE
from cenote.common.text import can_name_variables
from cenote.common.values import dataclass
from cenote.language.execution import Amounts


class Blank(Enum):
    """What a strategy fills in."""

    WORKER = "the name of the worker"
    LOG = "the file that it logs to"


@dataclass(frozen=True)
class Sent:
    """Where a file that is sent along is found on the node."""

    name: str


@dataclass(frozen=True)
class NodeVariable:
    """The value that an environment variable has on the node; for set-up lines that say where something is."""

    name: str


@dataclass(frozen=True)
class Raw:
    """Text in the language that a strategy writes, which it does not quote: `"$SLURM_ARRAY_TASK_ID"`."""

    text: str


WORKER, LOG = Blank.WORKER, Blank.LOG
Part = str | Blank | Sent | NodeVariable | Raw
Word = tuple[Part, ...]
"""One word of a command, or one value: its parts are put together without a space."""
Blanks = Mapping[Blank | Sent, Word]
"""What a strategy writes in place of each blank."""


def can_name_variable(name: str) -> bool:
    """Whether a shell and every node take it as the name of an environment variable."""
    return _VARIABLE.fullmatch(name) is not None


def words(*written: Part | Word) -> tuple[Word, ...]:
    """Words of which most are one part: `words("--name", WORKER, ("out/", WORKER))`."""
    return tuple(one if isinstance(one, tuple) else (one,) for one in written)


def filled(word: Word, blanks: Blanks) -> Word:
    """A word without blanks; text that meets becomes one part."""
    parts = [one for part in word for one in (blanks[part] if isinstance(part, Blank | Sent) else (part,))]
    return tuple(_merged(parts))


def _merged(parts: Iterable[Part]) -> Iterator[Part]:
    for is_text, group in groupby(parts, key=lambda part: isinstance(part, str)):
        if is_text:
            yield "".join(str(part) for part in group)
        else:
            yield from group


def plain_text(word: Word) -> str:
    """A word that nothing has to be done to on the node."""
    assert all(isinstance(part, str) for part in word), word
    return "".join(str(part) for part in word)


def shell_word(word: Word) -> str:
    """A word as a shell reads it; it stays one word, whatever is in it."""
    return "".join(_for_shell(part) for part in word if part) or "''"


def _for_shell(part: Part) -> str:
    match part:
        case str():
            return shlex.quote(part)
        case NodeVariable():
            return f'"${{{part.name}}}"'
        case Raw():
            return part.text
    raise ValueError(f"{part} is still to be filled in")


@dataclass(frozen=True)
class RunLocation:
    """Where a run lives: its folder, and the process that drives it. Written on every job as `4711@machine:/folder`."""

    host: str
    folder: Path
    process: str = ""

    def __str__(self) -> str:
        driver = f"{self.process}@{self.host}" if self.process else self.host
        return f"{driver}:{quote(str(self.folder))}"  # one word without quotes, whatever the folder is called

    @classmethod
    def here(cls, folder: Path) -> RunLocation:
        """Of a run that this process drives."""
        return cls(socket.gethostname(), folder.absolute(), str(os.getpid()))

    @classmethod
    def read(cls, text: str) -> RunLocation | None:
        """What stands on a job; None where nothing of the kind does."""
        driver, colon, folder = text.strip().partition(":")
        process, _, host = driver.rpartition("@")
        return cls(host, Path(unquote(folder)), process) if colon and folder.startswith("/") else None


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_START = "cenote.execution.worker.process.start"
Stream = Literal["out", "err", "logs"]
PERSON = ("HOME", "USER", "LOGNAME", "SHELL")
"""Variables that say whose account it is."""
INHERITED = (
    *PERSON,
    *("LANG", "LANGUAGE", "LC_*", "TZ"),
    # where software is
    *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"),
    *("ROOTSYS", "ROOT_INCLUDE_PATH", "ROOT_LIBRARY_PATH", "LHAPDF_DATA_PATH", "CUDA_HOME", "CUDA_PATH"),
    *("CMSSW_*", "SCRAM_ARCH", "CALIBPATH", "DATAPATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
    *("BASH_ENV", "BASH_FUNC_module%%", "BASH_FUNC_ml%%", "MODULESHOME", "MODULEPATH*", "MODULES_*", "LMOD_*"),
    *("LOADEDMODULES", "_LMFILES_", "_ModuleTable*", "__LMOD_*", "__MODULES_*"),
    *("APPTAINER_CACHEDIR", "APPTAINER_TMPDIR", "APPTAINER_BIND"),
    *("SINGULARITY_CACHEDIR", "SINGULARITY_TMPDIR", "SINGULARITY_BIND"),
    # how it works
    *("OMP_*", "OPENBLAS_*", "MKL_*", "BLIS_*", "VECLIB_*", "NUMEXPR_*", "NUMBA_*", "MALLOC_*"),
    *("DASK_CONFIG", "DASK_TEMPORARY_DIRECTORY", "DASK_DISTRIBUTED__*"),
    *("HDF5_USE_FILE_LOCKING", "MPLBACKEND", "XRD_*", "XrdSecPROTOCOL", "XrdSecDEBUG"),
    # whom it trusts
    *("X509_CERT_DIR", "X509_VOMS_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
"""Environment variables that workers get from where they are asked for: nothing secret, and nothing that leads to a
credential. `LC_*` is all that begin so. Whatever else they get is what the node or its batch system sets, what a launch
sets, and what it passes because somebody named it."""
OF_THIS_MACHINE = (
    "TMPDIR",
    "TEMP",
    "TMP",
    "XDG_CACHE_HOME",
    "CENOTE_CACHE",
    "CUDA_VISIBLE_DEVICES",
    "PYTHON_CPU_COUNT",
)
"""Those that workers on the same machine get too."""
FETCH = "CENOTE_FETCH"
"""Variable that a strategy sets on nodes that do not see the files of this machine: a command, as shell, that takes two
more words, a path on this machine and one on the node, and copies the file."""


@dataclass(frozen=True)
class LaunchingRun:
    """The run that starts workers."""

    id: str
    output: Path
    """An absolute folder; what each worker prints and logs is a file in its folders `out`, `err` and `logs`."""
    location: RunLocation | None = None
    """By which the run is found again from a job that it left behind."""

    def folder(self, stream: Stream) -> Path:
        """Of the workers' files of one sort."""
        return self.output / stream

    @property
    def identity(self) -> Path:
        """The file with which its workers show that they belong to it; only the user can read it."""
        return self.output / "identity" / f"{self.id}.pem"

    def make_folders(self) -> None:
        """For all of them."""
        for stream in ("out", "err", "logs"):
            (self.output / stream).mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class SentFile:
    """A file that workers need on their node."""

    source: Path
    """An absolute path on this machine; nodes that share its files read it there."""
    on_demand: bool = False
    """Whether a node fetches it itself, where it lacks it: for what is large, and kept there from one worker to the
    next. `Sent` is then its path on this machine, and the variable `FETCH` says how it is brought from there."""

    @property
    def name(self) -> str:
        """By which `Sent` means it."""
        return self.source.name


@dataclass(frozen=True)
class Launch:
    """How workers of one pool are started."""

    run: LaunchingRun
    pool: str
    resources: Amounts
    """Of one worker."""
    module: str | None
    """What Python runs; None where the arguments are the program."""
    arguments: tuple[Word, ...] = ()
    software: str = ""
    """The driver's, as `software.as_word` has it: the worker compares its own with it, and is turned away where the two
    do not fit. Empty for what is not a worker."""
    interpreter: tuple[Word, ...] = (("python3",),)
    """What starts Python on the node: the environment says it."""
    variables: Mapping[str, Word] = field(default_factory=dict)
    """Environment variables, set before the set-up lines."""
    passed: tuple[str, ...] = ()
    """Environment variables of this process that come along besides those of `INHERITED`: `ANALYSIS_*` is all that
    begin so."""
    unset: tuple[str, ...] = ()
    """Environment variables that come neither from this machine nor from the node: `CONDA_*` is all that begin so.
    Unset before `variables` are set."""
    setup: tuple[Word, ...] = ()
    """Lines of shell that run before the worker, one whole command each; a line that must succeed ends the shell
    itself: `… || exit 71`. Text is shell, blanks are quoted."""
    files: tuple[SentFile, ...] = ()
    scratch: str | None = None
    """A folder of the node for temporary files, with `$VARIABLES` of the node; None for its usual place."""
    warm: tuple[str, ...] = ()
    """What a process has imported that workers can be forked from: modules, and plugins (`source:root_tree`)."""

    def __post_init__(self) -> None:
        if wrong := [name for name in self.variables if not can_name_variable(name)]:
            raise ValueError(f"{wrong[0]!r} cannot name an environment variable")
        if wrong := [name for name in (*self.unset, *self.passed) if not can_name_variables(name)]:
            raise ValueError(f"{wrong[0]!r} cannot name environment variables")

    @property
    def command(self) -> tuple[Word, ...]:
        """The words that start the worker once everything is set up."""
        python = words(*ALONE, "-m", *self._modules) if self.module else ()
        return (*self.interpreter, *python, *self.arguments)

    @property
    def python_words(self) -> tuple[Word, ...]:
        """What a Python that is there already runs as the worker: a module, and what that is told. Empty where it is
        not Python that runs."""
        return (*words(*self._modules), *self.arguments) if self.module else ()

    @property
    def _modules(self) -> tuple[str, ...]:
        """The worker's own module, after the one that compares its software with the driver's."""
        checked = (_START, self.software) if self.software else ()
        return (*checked, self.module) if self.module else ()

    @property
    def needs_shell(self) -> bool:
        """Whether something has to be done on the node before the worker starts."""
        parts = [part for word in (*self.command, *self.variables.values()) for part in word]
        return bool(self.setup or self.unset) or any(isinstance(part, NodeVariable) for part in parts)

    def with_variables(self, **variables: str | Word) -> Launch:
        """With these set too."""
        new = {name: (value,) if isinstance(value, str) else value for name, value in variables.items()}
        return replace(self, variables={**self.variables, **new})

    def blanks(self, worker: Word) -> dict[Blank | Sent, Word]:
        """For nodes that see the files of this machine."""
        log = (f"{self.run.folder('logs')}/", *worker)
        return {WORKER: worker, LOG: log, **{Sent(file.name): (str(file.source),) for file in self.files}}

    def filled(self, blanks: Blanks) -> Launch:
        """Without blanks."""
        return replace(
            self,
            interpreter=tuple(filled(word, blanks) for word in self.interpreter),
            arguments=tuple(filled(word, blanks) for word in self.arguments),
            variables={name: filled(word, blanks) for name, word in self.variables.items()},
            setup=tuple(tuple(_line(line, blanks)) for line in self.setup),
        )

    @property
    def inheritable(self) -> tuple[str, ...]:
        """Names and patterns of the environment variables that a worker gets from where it is asked for."""
        return tuple(name for name in dict.fromkeys((*INHERITED, *self.passed)) if self._comes_along(name))

    def inherited(self, environment: Mapping[str, str], *, here: bool = False) -> dict[str, str]:
        """What a worker gets of this environment; with `here` one on the same machine."""
        patterns = (*self.inheritable, *(OF_THIS_MACHINE if here else ()))
        return {
            name: value
            for name, value in environment.items()
            if any(fnmatchcase(name, one) for one in patterns) and self._comes_along(name)
        }

    def _comes_along(self, name: str) -> bool:
        return name not in self.variables and not any(fnmatchcase(name, one) for one in self.unset)

    def export_lines(self) -> list[str]:
        """The variables, as shell: those that are unset, and those that are set."""
        return [*self._unset_lines(), *(f"export {name}={shell_word(value)}" for name, value in self.variables.items())]

    def _unset_lines(self) -> Iterator[str]:
        if names := [name for name in self.unset if not name.endswith("*")]:
            yield f"unset {' '.join(names)}"
        if beginnings := [name[:-1] for name in self.unset if name.endswith("*")]:
            # by programs of the node itself: a PATH that came along may lead anywhere
            found = "".join(f"s/^\\({begins}[A-Za-z0-9_]*\\)=.*/\\1/p;" for begins in beginnings)
            yield f"unset $(PATH=/usr/bin:/bin; env | sed -n '{found}')"

    def set_up_lines(self) -> list[str]:
        """What runs before the worker, as shell."""
        return ["".join(part if isinstance(part, str) else _for_shell(part) for part in line) for line in self.setup]

    def exec_line(self) -> str:
        """The worker in the place of the shell, as shell: signals reach the worker itself."""
        return "exec " + " ".join(shell_word(word) for word in self.command)

    def here(self, worker: str) -> tuple[tuple[str, ...], dict[str, str]]:
        """The command of one worker on this machine, and its whole environment."""
        ready = self.filled(self.blanks((worker,)))
        inherited = self.inherited(os.environ, here=True)
        if ready.needs_shell:
            lines = [*ready.export_lines(), *ready.set_up_lines(), ready.exec_line()]
            return ("/bin/sh", "-c", "\n".join(lines)), inherited
        variables = {name: plain_text(value) for name, value in ready.variables.items()}
        return tuple(plain_text(word) for word in ready.command), {**inherited, **variables}

    def forked_here(self, worker: str) -> tuple[tuple[str, ...], dict[str, str]] | None:
        """The words after `python -m` and the whole environment of one worker that may be forked from a warm process on
        this machine; None where a shell comes before it, it has another Python, or variables of its own."""
        own = any(not isinstance(part, str) for word in self.variables.values() for part in word)
        if own or self.needs_shell or not self.warm or self.interpreter != words(sys.executable):
            return None
        ready = self.filled(self.blanks((worker,)))
        variables = {name: plain_text(value) for name, value in ready.variables.items()}
        return tuple(plain_text(word) for word in ready.python_words), {
            **self.inherited(os.environ, here=True),
            **variables,
        }


def _line(line: Word, blanks: Blanks) -> Iterator[Part]:
    """A line of shell, with what is filled in quoted."""
    for part in line:
        yield Raw(shell_word(filled((part,), blanks))) if isinstance(part, Blank | Sent) else part
