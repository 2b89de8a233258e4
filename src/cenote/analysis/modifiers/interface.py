"""State what a modifier is: one method around the call of an operation, and what it may do there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Protocol

from cenote.analysis.modifiers.support.measures import (
    KeptWarnings,
    Measure,
    Measured,
    MeasuredStage,
    Value,
    plain_value,
    refuse_undeclared,
    unfit,
)
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.common.errors import printable
from cenote.common.values import dataclass
from cenote.language.plugins.settings import Plugin

LONGEST_WARNING = 600
"""Characters."""
Run = Callable[[Events], Result]
"""The stage, with the modifiers that come after this one already around it."""


class Effect(Enum):
    """What a modifier may do to the results of a stage."""

    OBSERVES = "observes"
    """Nothing: it hands on the events that it was given, and returns what the stage returned. The worker makes sure."""
    EXECUTES = "executes"
    """It decides where and how the stage computes. The result has the columns that the stage declares; the last bits
    may be others, so that it is part of the content hash of its tasks."""
    CHANGES = "changes"
    """It may change results in any way; it is part of the content hash of its tasks."""


class PeakMemory(Protocol):
    """Measures the memory of this process."""

    def restart(self) -> None:
        """Measure from here on."""

    def read(self) -> int:
        """Bytes, the most since then."""


@dataclass(frozen=True)
class Following:
    """The stage that alone takes the events of this one, in the same task."""

    operation: Operation
    reads: tuple[str, ...]
    """The columns that it reads."""
    live: tuple[str, ...]
    """The columns that are read after it."""
    modifiers: Mapping[str, Modifier]
    """Those around it, by name."""


@dataclass
class StageCall:
    """What a modifier may know of the call that it is around, and where it leaves what it found."""

    modifier: str
    """Its own name."""
    stage: str
    """Its id; of stages that are compiled together the first and the last one, for people."""
    operation: Operation
    """Of compiled stages, what runs their loop."""
    reads: tuple[str, ...] = ()
    """The columns that the stage reads."""
    adds: tuple[str, ...] = ()
    """The columns that it adds."""
    dataset: str = ""
    """The dataset of the events; empty where they come from all of them."""
    file: str = ""
    """The file of the events; empty where they come from several."""
    entries: tuple[int, int] = (0, 0)
    """First and last entry of the partition in that file."""
    following: Following | None = None
    """None where several stages take the events, none does, or they leave the task or are written to a file."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What this modifier keeps for later stages of the same task."""
    seconds: Callable[[], float] = lambda: 0.0
    """Since the task began."""
    memory: PeakMemory | None = None
    limit: Callable[[float], None] = lambda _seconds: None
    """Stops the stage, and counts it as timed out, when it has not ended so many seconds from now. For modifiers that
    declare `limits_time`."""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)
    warnings: KeptWarnings = field(default_factory=KeptWarnings)
    files: dict[str, bytes] = field(default_factory=dict)
    stages: tuple[str, ...] = ()
    """All stages that the call runs: one, or those that are compiled together."""

    def __post_init__(self) -> None:
        self.stages = self.stages or (self.stage,)

    def note(self, row: str = "", /, **values: Value | None) -> None:
        """Leave measurements: of this call, or of one row of the modifier's table. They are added up over all calls
        as `measures` declares, and shown in the summary and the report. None and what is not finite cannot be added up:
        the user is told, once."""
        refuse_undeclared(self.modifier, self.measures, values)
        into = self.measured.rows.setdefault(printable(str(row)), {}) if row else self.measured.values
        for name, value in values.items():
            try:
                plain = plain_value(value)
            except TypeError as problem:
                raise TypeError(f"'{name}' is to be {problem}") from None
            if plain is not None:
                into[name] = plain
            else:
                self.warn(
                    f"'{name}' of stage '{self.stage}' was {unfit(value)} in some calls, which do not count for it"
                )

    def warn(self, message: str) -> None:
        """Tell the user, once in a run however often it is said. A run keeps the first hundred different messages, and
        of one task twenty, and says how many more there were."""
        words = printable(f"modifier '{self.modifier}': {message}")
        self.warnings.add(words if len(words) <= LONGEST_WARNING else f"{words[: LONGEST_WARNING - 1]}…")

    def attach(self, name: str, content: str | bytes) -> None:
        """Leave a file in `debug/modifiers/<modifier>` of the run, wherever this worker is. A later one of the same
        name replaces it."""
        if leads_out(Path(name)) or Path(name) == Path() or "\0" in name:
            raise ValueError(f"'{name}' is not the name of a file below the folder of the modifier")
        if not isinstance(content, str | bytes | bytearray | memoryview):
            raise TypeError(f"'{name}' is to have text or bytes, not a value of type {type(content).__name__}")
        self.files[f"{self.modifier}/{name}"] = content.encode() if isinstance(content, str) else bytes(content)


def leads_out(name: Path) -> bool:
    """Whether it is not a name of a file below the folder of a modifier."""
    return name.is_absolute() or ".." in name.parts


@dataclass(frozen=True)
class RanTask:
    """One attempt at a task: where, when and how it ran, in seconds since the start of the run."""

    name: str
    """Its stages, for people."""
    partition: str
    """What they ran on; empty where that is more than one partition."""
    pool: str
    worker: str
    slot: int
    start: float
    end: float
    events: int = 0
    """Read from files."""
    bytes_read: int = 0
    failure: str | None = None
    """Why it failed; None where it did not."""
    stages: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """Stage → what the modifier noted of its call in this task."""
    groups: Mapping[tuple[str, ...], Mapping[str, Value]] = field(default_factory=dict)
    """The same of stages that were compiled together."""


@dataclass(frozen=True)
class FinishedRun:
    """A run that is over, for modifiers that make one file of what many calls left."""

    name: str
    stages: Mapping[str, MeasuredStage]
    """Stage → what the modifier measured there; without those of which no call succeeded."""
    folder: Path
    """Where its files are: `debug/modifiers/<modifier>`."""
    tasks: Callable[[], Iterable[RanTask]]
    """Every task that ran, by pool, worker and time."""
    write: Callable[[str, str], None]
    """Writes a file there."""
    groups: Mapping[tuple[str, ...], MeasuredStage] = field(default_factory=dict)
    """Stages that were compiled together → what the modifier measured of their calls as one."""


class Modifier(Plugin):
    """Runs on the worker, around a stage. Its fields are the `params` of the modifier, which no expression sees."""

    effect: ClassVar[Effect] = Effect.OBSERVES
    measures: ClassVar[Mapping[str, Measure]] = {}
    """What it notes of each call."""
    keeps_output: ClassVar[bool] = False
    """Whether the events that leave its stage are kept for later runs, whatever that costs."""
    limits_time: ClassVar[bool] = False
    """Whether it calls `limit`: its stage then runs in a process that can be stopped."""
    why_not_compiled: ClassVar[str] = "is around it"
    """Why its stage is not compiled, as `cenote plan` says it after its name. Empty for an observer that measures calls
    and looks at no column: where stages are compiled into one loop, `around` is called once for all of them,
    `call.stages` names them, and the result that it sees has neither events nor a product."""

    @property
    def shares_process(self) -> bool:
        """Whether tasks of compiled stages may run in threads of one process with it, as they do without: it switches
        nothing on that all of them would have."""
        return False

    @classmethod
    def obstacle(cls) -> str:
        """Why no stage with it is compiled; empty where it observes compiled stages. A class that only inherits that it
        does may look at more."""
        inherits = cls.maker_of("around") not in cls.maker_of("why_not_compiled").__mro__
        bound = inherits or cls.effect is not Effect.OBSERVES or cls.limits_time
        return cls.why_not_compiled or (Modifier.why_not_compiled if bound else "")

    def check_stage(self, stage: str, reads: Collection[str]) -> None:
        """While planning: raise what is wrong with these settings around a stage that reads these columns."""

    @abstractmethod
    def around(self, run: Run, events: Events, call: StageCall) -> Result:
        """Call `run`, doing something before, after or (where its effect allows) instead."""

    def conclude(self, run: FinishedRun) -> None:
        """On the driver, once the run is over: make one file of what many calls left."""
