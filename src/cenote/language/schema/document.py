"""Describe a whole workflow file: every key of the language, its type and its meaning."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, WithJsonSchema

from cenote.language.schema.forms import Count, Free, OneOrMany, OrText, PlainName, PlainNames, Positive, SomeFiles
from cenote.language.schema.stage import ExecutionModel, LanguageModel, PoolModel, StageModel

Version = Annotated[str, BeforeValidator(str), WithJsonSchema({"type": ["string", "number"]})]


class UseModel(LanguageModel):
    """What the workflow builds on."""

    profiles: PlainNames | None = None
    """Named or file profiles, merged under this file."""


class DatasetModel(LanguageModel, extra="allow"):
    """Input files that belong together. Other keys are metadata, such as a cross section."""

    name: PlainName
    """Its name: unique."""
    files: Annotated[tuple[str, ...], OneOrMany(), Field(min_length=1)]
    """Paths, patterns (`*.root`), URLs (`root://`, `https://`), and files of names: text, one a line or as rucio prints
    them; JSON or YAML, such as coffea's filesets and rucio's replicas."""
    eventtype: Literal["data", "mc"] | None = None
    """`data` or `mc`; without it, `data.defaults.eventtype`, else `mc`."""
    group: str | None = None
    """Group under which it is plotted."""
    max_events: Count | None = None
    """Read at most so many events, file after file."""
    nevents: Count | None = None
    """How many events were generated, for `kind: luminosity`. Without `max_events` no more than these are read."""
    on_bad_file: Literal["error", "skip"] | None = None
    """What becomes of a run with files that cannot be read: `error`, the default, refuses it; `skip` leaves them out,
    whole, and the summary names them."""
    max_bad_files: SomeFiles | None = None
    """With `skip`: if more files of the dataset are bad, it is an error; a number, or a share such as `5%`."""
    verify: Literal["digest"] | None = None
    """`digest`: before a run, files whose adler32 is in the file of names, as rucio's have it, are read whole and
    compared with it. One that differs is a bad file."""
    metadata: Free | None = Field(None, validation_alias=AliasChoices("metadata", "meta"))
    """Further facts, visible to operations."""


class DataDefaultsModel(LanguageModel, extra="allow"):
    """What holds for every dataset that does not say otherwise. Other keys are metadata."""

    eventtype: Literal["data", "mc"] | None = None
    """`data` or `mc`."""
    group: str | None = None
    """What datasets are drawn together with."""
    max_events: Count | None = None
    """Read at most so many events of each."""
    nevents: Count | None = None
    """How many events of each were generated; without `max_events` no more are read."""
    on_bad_file: Literal["error", "skip"] | None = None
    """What becomes of files that cannot be read."""
    max_bad_files: SomeFiles | None = None
    """How many files of each may be skipped."""
    verify: Literal["digest"] | None = None
    """Whether files are compared with the checksums that their catalogue knows."""
    tree_primary: str | None = None
    """The tree to read where no `sources` are given."""


class SourceModel(LanguageModel, extra="allow"):
    """How events are read. Other keys are the source's own, such as `tree`."""

    kind: str = "root_tree"
    """`root_tree`, `parquet`, or a plugin."""
    branches: PlainNames | None = None
    """The columns that events have besides those that stages ask for by name: skims without `keep` hold no others."""
    start: Count | None = None
    """First event of each file."""
    stop: Count | None = None
    """Event of each file before which reading stops."""
    chunk_size: Positive | None = None
    """Events per partition; without it, chosen from the files."""
    stream_type: Literal["event_stream"] = "event_stream"
    """Accepted for FAST-HEP's sake."""
    missing_branches: Literal["error", "ignore", "default"] = "error"
    """What to do about columns that a file lacks.

    `error`: refuse the run where a stage reads one. `ignore`: a dataset has the columns that all of its files have.
    `default`: fill them, also in datasets of which no file has them."""
    defaults: dict[str, Any] | None = None
    """Column → value to fill with `missing_branches: default`; without it false, 0, NaN, or an empty list."""
    same_file: Literal["content", "stamp", "checksum"] = "content"
    """When a file is the one of an earlier run, whose results are used again.

    `content`: when the same is in it, wherever it is, as far as that is known without reading all of it; else as with
    `stamp`. `stamp`: when address, time and size are the same. `checksum`: when every byte is the same; files are read
    whole for that, each once as long as nobody writes to it."""


class FieldModel(LanguageModel):
    """Another name for a column. Short form: the column."""

    stream: str | None = None
    """The source or join it comes from."""
    branch: str
    """The column's name there: `Muon.pt`, `L1Upgrade/jetEt`."""


class JoinInputModel(LanguageModel):
    """One side of a join. Short form: the source."""

    source: str
    """The source."""
    prefix: str | None = None
    """Its columns are called `<prefix>_<column>`, or `prefix.column`; without it, the name of the source."""
    file: str | None = None
    """Where its events are in files of their own (friends): a path with `{name}`, `{stem}` and `{folder}` of the
    dataset's file. A relative one is beside it."""


class JoinModel(LanguageModel):
    """Several sources side by side, event by event."""

    kind: Literal["zip"] = "zip"
    """`zip`: the first event with the first, and so on."""
    inputs: Annotated[tuple[Annotated[JoinInputModel, OrText("source")], ...], Field(min_length=1)]
    """The sources to join."""
    on_mismatch: Literal["error", "warn"] = "error"
    """Where they have different numbers of events: an error, or a warning and only as many as all of them have."""


class VariationWeightModel(LanguageModel):
    """How a variation changes weights."""

    multiply: Annotated[tuple[str | int | float, ...], Field(min_length=1), OneOrMany()]
    """Expressions that multiply the weight of every weighted histogram."""


class VariationDatasetsModel(LanguageModel):
    """How a variation changes the input."""

    replace: Annotated[dict[str, str], Field(min_length=1)]
    """Dataset → the dataset whose events take its place. Such a dataset is read for its variations only."""


class VariationAppliesToModel(LanguageModel):
    """The datasets that a variation changes. Short form: an event type."""

    eventtypes: Annotated[tuple[Literal["data", "mc"], ...], OneOrMany()] = Field(
        (), validation_alias=AliasChoices("eventtypes", "eventtype")
    )
    """Only datasets of this type: `data` or `mc`."""
    datasets: PlainNames = ()
    """Only these datasets."""


class VariationModel(LanguageModel):
    """One systematic variation."""

    name: PlainName
    """Its name along the axis `variation` of histograms; may hold `{axis}` of `matrix`."""
    mode: Literal["plan", "inline"] | None = None
    """Accepted for FAST-HEP's sake: all variations are computed in one pass over the data."""
    group: str | None = None
    """What it belongs to, such as `jes`; without it, the name without `_up` or `_down`."""
    direction: str | None = None
    """`up` or `down`; without it, what the name ends with."""
    metadata: Free | None = None
    """Further facts."""
    applies_to: Annotated[VariationAppliesToModel, OrText("eventtypes")] | None = None
    """The datasets that it changes; without it, all."""
    requires: PlainNames = ()
    """Columns that must be there. `stage.NAME`, as FAST-HEP writes it, is a stage: where it is missing, a warning."""
    weight: VariationWeightModel | None = None
    """Changes weights."""
    replace: dict[str, str] | None = None
    """Column → the column to read instead, in every stage."""
    datasets: VariationDatasetsModel | None = None
    """Takes events from other files."""
    anchor: str | None = Field(None, validation_alias=AliasChoices("anchor", "stage"))
    """The stage whose settings `patch` changes."""
    patch: Free | None = Field(None, validation_alias=AliasChoices("patch", "params"))
    """Changes to that stage's params: mappings are merged, everything else is replaced."""
    stop_before: PlainNames = ()
    """Stages that do not see it, nor do those that follow them."""
    export: dict[str, str] | None = None
    """Name → column of the variation, for the stages of `stop_before` and those that follow them."""
    matrix: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] | None = None
    """Several variations from one entry: a list of values per name, which `{name}` stands for in all other texts."""


class SystematicsModel(LanguageModel):
    """Variations of the analysis, all computed in one pass over the data."""

    include_nominal: bool = True
    """Accepted for FAST-HEP's sake: the unchanged analysis is always one of them, called `nominal`."""
    profiles: PlainNames = ()
    """Files with more variations, by path or by the name of a profile; theirs come first."""
    cutflows: bool = False
    """Whether there is a cutflow for each variation that changes a selection; else there is the nominal one alone."""
    variations: tuple[VariationModel, ...] = ()
    """The variations."""


class OutputModel(LanguageModel, extra="allow"):
    """A layout that `write.use` refers to. Other keys are the sink's."""

    tree: str | None = None
    """The name of the tree."""
    keep: PlainNames | None = None
    """Columns to write."""


class AnalysisModel(LanguageModel):
    """What to compute."""

    globals: dict[str, Any] | None = None
    """Constants for expressions."""
    stages: tuple[StageModel, ...]
    """The steps, in order."""


class DataModel(LanguageModel):
    """What to run on."""

    datasets: list[DatasetModel] | dict[PlainName, Any] | None = None
    """A list, or a mapping from names."""
    defaults: DataDefaultsModel | None = None
    """What holds for every dataset that does not say otherwise."""
    catalogue: PlainNames | None = None
    """JSON or YAML files with more datasets, such as coffea's filesets: dataset → list of files, or `{files,
    metadata}`. Names in them are beside them."""


class ObserverModel(LanguageModel, extra="allow"):
    """A snapshot of the columns at some stages. Other keys are the observer's."""

    kind: str
    """`hep.branches` (names) or `hep.schema_snapshot` (names, types, makers)."""
    at: PlainNames = ()
    """Where: `read.SOURCE`, `join.NAME`, `stage.ID`, `write.ID.0` (the first skim of a stage)."""
    out: PlainName | None = None
    """The folder below `products/` for its files; without it, `branches` or `schema`."""


class HookModel(LanguageModel, extra="allow"):
    """Something that FAST-HEP calls while it runs. Other keys are the hook's."""

    kind: str
    """Those of FAST-HEP itself are built in: errors, warnings and use of resources are always reported."""


class ReportOutputModel(LanguageModel):
    """A file of a report."""

    path: str
    """Its name below the folder `reports/` of the run."""
    format: Literal["markdown", "md", "html"] | None = None
    """Without it, `html` for a name that ends so, else `markdown`."""


class ReportModel(LanguageModel):
    """A text about the run, written when it is over."""

    id: PlainName
    """A name for messages."""
    op: Literal["hep.report.template"] = "hep.report.template"
    """A template is filled."""
    source: Literal["provenance"] = "provenance"
    """What the template can show: where results come from."""
    template: str | None = None
    """A Jinja template in Markdown, beside the workflow; without it, the built-in `hep.provenance.default`."""
    outputs: Annotated[tuple[Annotated[ReportOutputModel, OrText("path")], ...], OneOrMany(), Field(min_length=1)]
    """The files to write."""


class SiteModel(LanguageModel):
    """Whose computers these are: the head of a file that a site keeps for all of its users."""

    name: PlainName
    """A short name, which `cenote plan` gives as the origin of values: `desy`."""
    description: str | None = None
    """What there is, in a sentence or two."""
    contact: str | None = None
    """Whom to ask: an address, a channel, a ticket queue."""
    docs: str | None = None
    """Address of the site's own pages."""


class WorkflowModel(LanguageModel):
    """A Cenote workflow: what to compute and, apart from that, where."""

    version: Version = "1.0"
    """The author's own number for this workflow, or `1.0`, which is the version of the language."""
    include: PlainNames | None = None
    """Other YAML files, merged under this one: mappings key by key, lists one after the other; `null` takes a key away.
    A stage of theirs is changed on the command line: `--set analysis.stages.ID.params.KEY=VALUE`."""
    use: UseModel | None = None
    """What the workflow builds on."""
    data: DataModel | None = None
    """What to run on."""
    datasets: list[DatasetModel] | dict[PlainName, Any] | None = None
    """The same as `data.datasets`."""
    sources: dict[PlainName, SourceModel] | None = None
    """How events are read; without it, one `root_tree` called `events`."""
    fields: dict[str, Annotated[FieldModel, OrText("branch")]] | None = None
    """Other names for columns."""
    joins: dict[PlainName, JoinModel] | None = None
    """Sources side by side: several trees of a file, or files that belong together."""
    primary_stream: str | None = None
    """The source or join that stages start from, where there are several."""
    analysis: AnalysisModel | None = None
    """What to compute. A workflow that names data may do without: then it lists and checks the data."""
    systematics: SystematicsModel | None = None
    """Variations of the analysis."""
    outputs: dict[str, OutputModel] | None = None
    """Layouts of files that stages write."""
    styles: dict[str, Free] | None = None
    """How pictures look; `use:` inherits, `with:` changes."""
    observers: Annotated[tuple[ObserverModel, ...], OneOrMany()] | None = None
    """Snapshots of columns, in files below `products/`."""
    reports: Annotated[tuple[ReportModel, ...], OneOrMany()] | None = None
    """Texts about the run, from templates."""
    execution_hooks: Annotated[tuple[HookModel, ...], OneOrMany()] | None = None
    """Accepted for FAST-HEP's sake; hooks other than FAST-HEP's own are left out with a warning."""
    plugins: PlainNames | None = None
    """Python files or packages with own operations, sources, modifiers."""
    registry: dict[str, dict[str, Any]] | None = None
    """Plugins by kind and name: `{impl: "module:object"}`; `constants` are values by name, as in `analysis.globals`;
    `functions`, for expressions: `"module:function"` by name, of columns."""
    pool_profiles: dict[PlainName, PoolModel] | None = None
    """Pools that `execution.pools.NAME.use` refers to."""
    execution: ExecutionModel | None = None
    """Where and how it runs."""
    site: SiteModel | None = None
    """Only in a site configuration file: name and contact of the site. `cenote site show` prints it."""
