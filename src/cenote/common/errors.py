"""Hold every error: what is wrong, where, what next, and the exit code it ends with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cenote.common.text import did_you_mean, listed
from cenote.common.values import dataclass


@dataclass(frozen=True, order=True)
class Place:
    """A position in a file that a person wrote; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class ErrorKind:
    """One kind of error: a stable name for docs and scripts, and the exit code."""

    name: str
    exit_code: int
    meaning: str
    transient: bool = False


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, in the user's words."""

    kind: ErrorKind
    message: str
    place: Place | None = None
    details: tuple[str, ...] = ()
    """What is there: the known keys, the pools of the file, the files that have the branch."""
    hint: str | None = None

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        lines = [f"{where}{self.message}", *(f"  {line}" for line in self.details)]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def at(self, place: Place | None) -> Problem:
        """The same problem, placed here unless it already has a place."""
        return self if self.place or place is None else replace(self, place=place)


class CenoteError(Exception):
    """One or more problems that stop what was asked for."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(unique(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type[CenoteError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)

    def _render_traceback_(self) -> list[str]:
        """What IPython and Jupyter show: what is wrong, without the lines of ours that found it."""
        return [f"{type(self).__name__}: {self}"]

    @property
    def exit_code(self) -> int:
        """Of the family that comes first: a file that cannot be read explains everything after it."""
        return min((problem.kind.exit_code for problem in self.problems), default=1)


def unique(problems: Iterable[Problem]) -> Sequence[Problem]:
    """Without repetitions, in the order of the file (problems without a place last).

    Plugins that cannot be loaded come first: much of the rest may be a consequence.
    """
    return sorted(
        dict.fromkeys(problems),
        key=lambda problem: (problem.kind is not BAD_PLUGIN, problem.place is None, problem.place or Place("", 0, 0)),
    )


def unknown_name(
    kind: ErrorKind, message: str, name: str, known: Iterable[str], *, what: str, place: Place | None = None
) -> Problem:
    """The problem with a name that is not there: it says `what` there is instead, and the nearest of it."""
    names = list(known)
    return Problem(kind, message, place=place, details=(f"{what}: {listed(names)}",), hint=did_you_mean(name, names))


def error(
    kind: ErrorKind,
    message: str,
    *,
    place: Place | None = None,
    details: Iterable[str] = (),
    hint: str | None = None,
) -> CenoteError:
    """A ready-to-raise error of one problem."""
    return CenoteError(Problem(kind, message, place=place, details=tuple(details), hint=hint))


# 2: how the command was used
USAGE = ErrorKind("usage", 2, "Unknown command or option, or options that contradict each other.")
NO_RUN = ErrorKind("no-run", 2, "The folder named holds no run: it has no journal.jsonl.")
RUN_EXISTS = ErrorKind(
    "run-exists", 2, "The output folder is in use by another run, or holds files that belong to no run."
)
NOT_RUNNING = ErrorKind("not-running", 2, "The run cannot be cancelled: no driver of yours on this machine answers.")
STILL_RUNNING = ErrorKind("still-running", 2, "The run was asked to end and did not end in time.")

# 10-19: the file is wrong
MISSING_FILE = ErrorKind("missing-file", 10, "A named file does not exist or cannot be read.")
BAD_YAML = ErrorKind("bad-yaml", 10, "The file is not YAML: the position is where reading stopped.")
DUPLICATE_KEY = ErrorKind("duplicate-key", 10, "A mapping holds the same key twice.")
UNKNOWN_KEY = ErrorKind("unknown-key", 10, "Unknown key, often a typo.")
BAD_VALUE = ErrorKind("bad-value", 10, "A value of the wrong type, the wrong unit, or out of range.")
MISSING_KEY = ErrorKind("missing-key", 10, "A required key is missing.")
DUPLICATE_ID = ErrorKind("duplicate-id", 10, "Two stages, two datasets or two reports have the same name.")
INCLUDE_CYCLE = ErrorKind("include-cycle", 10, "Files include each other in a circle.")
UNKNOWN_PROFILE = ErrorKind("unknown-profile", 10, "A profile or pool profile that no file defines.")
BAD_EXPRESSION = ErrorKind(
    "bad-expression", 10, "An expression that cannot be parsed, uses what is not allowed, or must be a condition."
)

CYCLE = ErrorKind("cycle", 11, "Stages need each other in a circle.")
UNKNOWN_STAGE = ErrorKind("unknown-stage", 11, "A reference to a stage, source or dataset that does not exist.")
UNKNOWN_COLUMN = ErrorKind("unknown-column", 11, "A column that neither the data nor an earlier stage provides.")
BAD_INPUT = ErrorKind("bad-input", 11, "An input file cannot be read: missing, truncated, or without the tree.")
NO_DATA = ErrorKind("no-data", 11, "No input: no datasets, or patterns that match no file.")
COLUMN_CLASH = ErrorKind(
    "column-clash", 11, "Two branches of the workflow, or of a file, name the same column, so it is ambiguous."
)
OUTPUT_CLASH = ErrorKind("output-clash", 11, "Two results of a run would be written to the same file.")
NOT_AVAILABLE = ErrorKind("not-available", 11, "A part of the language that this version does not execute yet.")

UNKNOWN_OPERATION = ErrorKind("unknown-operation", 12, "An operation that is neither built in nor a plugin.")
UNKNOWN_PLUGIN = ErrorKind("unknown-plugin", 12, "A source, renderer, backend or other plugin that does not exist.")
BAD_PLUGIN = ErrorKind("bad-plugin", 12, "A plugin that cannot be imported, or whose declaration is invalid.")

UNKNOWN_POOL = ErrorKind("unknown-pool", 14, "A pool or a label that no pool of this workflow provides.")
NEVER_FITS = ErrorKind("never-fits", 14, "A stage that no worker of any allowed pool could ever run.")

# 20-29: the run failed
STAGE_FAILED = ErrorKind("stage-failed", 20, "A stage raised an exception on at least one partition.")
TIMED_OUT = ErrorKind("timed-out", 20, "A task ran longer than the stage's timeout.")
UNREADABLE_INPUT = ErrorKind("unreadable-input", 20, "An input file could not be read during the run.")
CHANGED_INPUT = ErrorKind("changed-input", 22, "An input file was replaced or rewritten while the run was going on.")
RENDER_FAILED = ErrorKind(
    "render-failed", 20, "A table, a workspace or a report could not be written; the products are saved."
)
WORKER_LOST = ErrorKind("worker-lost", 21, "Workers were lost repeatedly while running the same task.")
DRIVER_LOST = ErrorKind("driver-lost", 21, "The process of a service that drove the run was ended from outside.")
NO_WORKER = ErrorKind("no-worker", 21, "A pool had no worker for a task, and no other pool was allowed to run it.")
DAMAGED_RESULT = ErrorKind(
    "damaged-result", 31, "Stored results could not be read back, even after they were recomputed."
)
OUT_OF_MEMORY = ErrorKind("out-of-memory", 21, "A task needed more memory than its worker has.")

# 30-: surroundings
ENVIRONMENT = ErrorKind("environment", 30, "Software that the run needs is missing: often an extra of the package.")
BAD_ENVIRONMENT = ErrorKind(
    "bad-environment", 30, "An environment that workers cannot run: incomplete, damaged, or impossible to pack."
)
NO_DEVICE = ErrorKind(
    "no-device", 30, "A stage demands a GPU (`on_unavailable: error`, `device: cuda`), and its worker can use none."
)
NETWORK = ErrorKind("network", 30, "The driver cannot listen for workers as its settings say.")
DISK_FULL = ErrorKind("disk-full", 31, "No space left to write: a full disk or quota.")
NO_ACCESS = ErrorKind("no-access", 32, "Permission denied for a file or folder that the run needs.")
BROKEN_STORAGE = ErrorKind("broken-storage", 33, "A file system does not respond correctly.")
BAD_PATH = ErrorKind("bad-path", 34, "An unusable path: too long, a loop of links, or a file where a folder is needed.")
DAMAGED_RUN = ErrorKind("damaged-run", 35, "A file in a run's folder is damaged, or the folder was removed.")
NO_CREDENTIAL = ErrorKind("no-credential", 36, "A credential that the workflow names is in none of the usual places.")
BAD_CREDENTIAL = ErrorKind(
    "bad-credential", 36, "An unusable credential: expired, damaged, forged, open to other users, or without a right."
)
SHORT_CREDENTIAL = ErrorKind("short-credential", 36, "A credential ends sooner than its `minimum_lifetime` allows.")
BATCH_SYSTEM = ErrorKind(
    "batch-system", 40, "The batch system did not answer, or its answer made no sense.", transient=True
)
JOB_REFUSED = ErrorKind("job-refused", 41, "The batch system refused a job; submitting it again would not help.")
NO_SERVICE = ErrorKind("no-service", 42, "No service of long-lived pools answers, or another one holds its folder.")
UNKNOWN_TOKEN = ErrorKind("unknown-token", 43, "The service has no token with this id.")
NOT_ALLOWED = ErrorKind(
    "not-allowed", 43, "The service does not know who asks, or they may not do this; or they asked too often."
)
TOO_LARGE = ErrorKind("too-large", 43, "A request or an upload is larger than the service takes.")
INTERRUPTED = ErrorKind("interrupted", 130, "Ctrl-C, `cenote cancel` or a signal ended the command.")

KINDS: tuple[ErrorKind, ...] = tuple(value for value in list(globals().values()) if isinstance(value, ErrorKind))


_LONGEST_HALF = 10_000
"""Characters of the beginning, and of the end, of what somebody's code says."""


def words_of(problem: BaseException) -> str:
    """What somebody's code raised: `ValueError: too large`. Its text may be anything, or raise itself."""
    try:
        text = str(problem).strip()
    except Exception:
        text = "(its message cannot be read)"
    name = type(problem).__name__
    return shortened(printable(f"{name}: {text}" if text else name))


def shortened(text: str) -> str:
    """Its beginning and its end, where somebody's code says more than anybody reads: it goes into many files."""
    left_out = len(text) - 2 * _LONGEST_HALF
    if left_out <= 0:
        return text
    return f"{text[:_LONGEST_HALF]}\n… {left_out} characters left out …\n{text[-_LONGEST_HALF:]}"


def printable(text: str) -> str:
    """With escapes for what is no character, such as bytes of file names that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
