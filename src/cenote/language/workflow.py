"""Define Workflow: what was written, checked and frozen. Everything to the right starts from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from cenote.common.errors import Place
from cenote.common.values import dataclass
from cenote.language.execution import Amounts, ExecutionSettings, Pool
from cenote.language.systematics import Fillings, KeyPath, Origin, Systematics, Varied

DEFAULT_EVENTTYPE = "mc"
"""As in FAST-HEP: real data has to be declared as data."""


@dataclass(frozen=True)
class Dataset:
    """Input files that belong together."""

    name: str
    files: tuple[str, ...]
    """As written: paths, globs, `.txt` lists of names, URLs. Relative ones are relative to the workflow's folder."""
    eventtype: str = DEFAULT_EVENTTYPE
    group: str | None = None
    max_events: int | None = None
    """At most this many events are read; None leaves it to `nevents`."""
    nevents: int | None = None
    """How many events were generated."""
    on_bad_file: Literal["error", "skip"] = "error"
    """Whether files that cannot be read are an error, or left out."""
    max_bad_files: int | str | None = None
    """How many of them may be left out: a number, or a share such as `5%`; None for all but one."""
    verify: Literal["digest"] | None = None
    """Whether files are compared with the checksums that their catalogue knows."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    stands_for: str | None = None
    """The dataset whose place it takes in a variation: it is none of its own then."""
    path: KeyPath = ()

    @property
    def limit(self) -> tuple[str, int] | None:
        """The key that says how many events are read at most, and its value; None reads all."""
        for key, most in (("max_events", self.max_events), ("nevents", self.nevents)):
            if most is not None:
                return key, most
        return None


SameFile = Literal["content", "stamp", "checksum"]
"""When a file is the one of an earlier run, from the least to the most that is asked for."""


@dataclass(frozen=True)
class SourceUse:
    """One entry of `sources`."""

    id: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The plugin's own settings, checked against it (`tree` for `root_tree`)."""
    branches: tuple[str, ...] | None = None
    """What the author lists; stages may read every other column too, by its name."""
    start: int | None = None
    stop: int | None = None
    chunk_size: int | None = None
    """Events per partition; None chooses from the metadata."""
    missing_branches: Literal["error", "ignore", "default"] = "error"
    """What becomes of columns that some files lack: an error, left out, or filled."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Column → what it is filled with; without it, what its type has."""
    same_file: SameFile = "content"
    of: tuple[str, ...] = ()
    """The sources that a join reads side by side."""
    path: KeyPath = ()


@dataclass(frozen=True)
class Field:
    """An alias of a column: `fields.<alias>`."""

    alias: str
    stream: str | None
    branch: str
    path: KeyPath = ()


@dataclass(frozen=True)
class PluginUse:
    """A named plugin with its settings: a modifier, a writer, a renderer."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    path: KeyPath = ()


@dataclass(frozen=True)
class Observer:
    """A snapshot of the columns at some places."""

    kind: str
    at: tuple[str, ...]
    """`read.SOURCE`, `join.NAME`, `stage.ID`, `write.ID.NUMBER`."""
    out: str | None = None
    """A folder below `products/`."""


@dataclass(frozen=True)
class ReportOutput:
    """A file of a report."""

    path: str
    """Below the folder of reports."""
    format: Literal["markdown", "html"]


@dataclass(frozen=True)
class Report:
    """A text about the run, from a template."""

    id: str
    template: Path | None
    """None for the built-in one."""
    outputs: tuple[ReportOutput, ...]
    path: KeyPath = ()


@dataclass(frozen=True)
class AppliesTo:
    """Which datasets a stage runs on; empty means all."""

    eventtypes: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    exactly: frozenset[str] | None = None
    """Instead of both, the datasets by name, those that stand for others among them."""

    def includes(self, dataset: Dataset) -> bool:
        """Whether the stage runs on this dataset."""
        if self.exactly is not None:
            return dataset.name in self.exactly
        return (not self.eventtypes or dataset.eventtype in self.eventtypes) and (
            not self.datasets or (dataset.stands_for or dataset.name) in self.datasets
        )


@dataclass(frozen=True)
class Requirement:
    """What a stage asks for."""

    labels: tuple[str, ...] = ()
    """`require`: only pools that provide all of these."""
    prefer: str | None = None
    fallback: tuple[str, ...] = ()
    pool: str | None = None
    amounts: Amounts = Amounts()
    timeout: int | None = None
    """Seconds for one task's share of this stage."""
    retries: int = 0
    modifiers: tuple[PluginUse, ...] = ()
    path: KeyPath = ()


@dataclass(frozen=True)
class Write:
    """A skim: events of a stage written to files."""

    kind: str
    path_template: str
    """As written; `{dataset}` and `{part}` are filled in."""
    keep: tuple[str, ...] | None = None
    per_dataset: bool = False
    """One file for each dataset."""
    per_run: bool = False
    """One file of all datasets; else, and without `per_dataset`, one for each partition."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    path: KeyPath = ()


@dataclass(frozen=True)
class Render:
    """A picture or table of a stage's product; styles are resolved already."""

    name: str
    """The renderer: `hep.render.hist1d`."""
    out: str | None = None
    """Below `plots/` as written, folders included; None takes the stage's id."""
    per_dataset: bool = False
    """A picture of each dataset, in a folder of its name; else one of all of them."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    by: str | None = None
    """The id of the stage that only draws, where one does."""
    together: Mapping[str, str] = field(default_factory=dict)
    """Where it draws several products: what it calls each → the stage that makes it; it hangs on the last of them."""
    path: KeyPath = ()


@dataclass(frozen=True)
class Stage:
    """One step that the author wrote."""

    id: str
    op: str
    params: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Ids of the stages whose events come in; empty for a stage that starts from a source."""
    source: str | None = None
    """The source or join it starts from (`from`), for a stage without needs; None is the only or first one."""
    applies_to: AppliesTo = AppliesTo()
    scope: Literal["partition", "dataset", "run"] | None = None
    """None: the operation's own."""
    depends_on: tuple[str, ...] = ()
    """Files that results depend on, as written: names or patterns."""
    requirement: Requirement = Requirement()
    write: tuple[Write, ...] = ()
    render: tuple[Render, ...] = ()
    varied: Varied | None = None
    """How it runs for a variation, where the plan added it for one."""
    fillings: Fillings | None = None
    """How its histogram is filled for variations."""
    leaves_product: bool = True
    """Whether what it makes is kept, if it makes something."""
    path: KeyPath = ()


@dataclass(frozen=True)
class Execution(ExecutionSettings):
    """Where and how it runs."""

    pools: tuple[Pool, ...] = ()
    """At least one after checking: a workflow without pools gets one called `default`."""
    modifiers: tuple[PluginUse, ...] = ()

    def config_of(self, pool: str) -> dict[str, Any]:
        """The settings for all pools, and over them the pool's own."""
        return {**self.config, **self._pool(pool).config}

    def environment_of(self, pool: str) -> Mapping[str, Any]:
        """The pool's own, else the run's, else the current one."""
        return self._pool(pool).environment or self.environment or {"type": "current"}

    def credentials_of(self, pool: str) -> tuple[Mapping[str, Any], ...]:
        """The pool's own, else the run's."""
        own = self._pool(pool).credentials
        return self.credentials if own is None else own

    def pass_variables_of(self, pool: str) -> tuple[str, ...]:
        """The pool's own, else the run's."""
        own = self._pool(pool).pass_variables
        return self.pass_variables if own is None else own

    def _pool(self, name: str) -> Pool:
        return next((pool for pool in self.pools if pool.name == name), Pool(name))


@dataclass(frozen=True)
class PluginSource:
    """Where own plugins come from: a Python file, a module, or one object under a name."""

    target: str
    """An absolute path of a `.py` file, a module name, or `module:object`."""
    kind: str | None = None
    name: str | None = None
    path: KeyPath = ()


@dataclass(frozen=True)
class Unexecuted:
    """A part of the file that is correct but that this version does not execute."""

    what: str
    """In the words of a message: `drawing per dataset`."""
    path: KeyPath = ()
    matters: bool = True
    """Whether results would differ without it; else it is left out with a warning."""


@dataclass(frozen=True)
class Workflow:
    """Everything a file says, after includes, profiles and the command line were merged and checked."""

    file: Path
    folder: Path
    """Relative names in the workflow are relative to it."""
    version: str = "1.0"
    datasets: tuple[Dataset, ...] = ()
    sources: tuple[SourceUse, ...] = ()
    fields: tuple[Field, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    systematics: Systematics | None = None
    observers: tuple[Observer, ...] = ()
    reports: tuple[Report, ...] = ()
    execution: Execution = Execution()
    plugins: tuple[PluginSource, ...] = ()
    unexecuted: tuple[Unexecuted, ...] = ()
    """Parts without a place of their own in this value; see `availability.unavailable` for all of them."""
    origins: Mapping[KeyPath, Origin] = field(default_factory=dict)
    """For every value of the merged document (leaves and mappings)."""
    content: bytes | None = None
    """What was read where it is in no file, as from standard input."""
    helpers: frozenset[str] = frozenset()
    """Stages that run for others' sake alone, because a part of the workflow was chosen: nothing of them is kept."""
    left_out: frozenset[str] = frozenset()
    """Stages of the file that were not chosen."""

    def place(self, *path: str | int) -> Place | None:
        """Where this was written, or the nearest thing around it."""
        for end in range(len(path), -1, -1):
            origin = self.origins.get(path[:end])
            if origin is not None and origin.place is not None:
                return origin.place
        return None

    def origin(self, *path: str | int) -> Origin | None:
        """Which layer gave this value; None for a built-in default."""
        return self.origins.get(path)
