"""Describe stages and pools as the document has them, and what may hang on a stage."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from cenote.common.values import dataclass
from cenote.language.execution import Amounts, ExecutionSettings, PoolSettings
from cenote.language.plugins.settings import Seconds, Settings
from cenote.language.schema.forms import Count, Free, OneOrMany, OrText, PlainName, PlainNames

# Give the models of the language what they share: keys are spelt as in the file, unknown ones are refused.


class LanguageModel(Settings):
    """A mapping of the language: its keys are spelt as in the file, never as in Python."""

    model_config = ConfigDict(populate_by_name=False)


class EnvironmentModel(LanguageModel, extra="allow"):
    """The software that workers run. Short form: its type."""

    type: str
    """`current`, or a plugin; the other keys are its own."""


class CredentialModel(LanguageModel, extra="allow"):
    """What lets workers reach protected data. Short form: its type."""

    type: str
    """`none`, or a plugin; the other keys are its own."""


# Describe `execution`: where and how a workflow runs, for the whole file and for one stage.


@dataclass(frozen=True)
class TaskResourcesModel(Amounts):
    """What one task needs."""

    resource_pool: str | None = None
    """Another spelling of `pool`, for those who come from Determined."""


@dataclass(frozen=True)
class PoolResourcesModel(Amounts):
    """What one worker of a pool has: amounts, the name of a resource class, or a class with amounts changed."""

    class_: Annotated[str | None, Field(alias="class")] = None
    """A class of `execution.resources`; `resources: big` is short for it. The pool provides this label too."""


class ModifierModel(LanguageModel):
    """Something that wraps the execution of a stage. Short form: its name."""

    name: str
    """The modifier: `profile`, `gpu.preload`, `cuda.jit`, or a plugin."""
    params: Free | None = None
    """Its own settings."""


Modifiers = Annotated[tuple[Annotated[ModifierModel, OrText("name")], ...], OneOrMany()]


@dataclass(frozen=True)
class _Resolved:
    """Keys of a pool that are resolved when the file is checked."""

    use: str | None = None
    """A pool profile merged under this pool: `standard_worker`, `gpu_worker`, or one of `pool_profiles`."""
    resources: Annotated[PoolResourcesModel, OrText("class")] | None = None
    """What one worker has: amounts, or the name of a resource class."""


@dataclass(frozen=True)
class PoolModel(PoolSettings, _Resolved):
    """A named group of alike workers."""


@dataclass(frozen=True)
class ExecutionModel(ExecutionSettings):
    """Where and how the workflow runs."""

    profiles: PlainNames | None = None
    """Profiles merged under this file."""
    resources: dict[PlainName, Amounts] | None = None
    """Named resource classes, for pools that say `resources: NAME`."""
    pools: dict[PlainName, PoolModel] | None = None
    """What workers exist, by the name of their pool."""
    modifiers: Modifiers = ()
    """Modifiers on every stage."""
    staging: Free | None = None
    """Accepted for FAST-HEP's sake: files reach workers without it."""


class StageExecutionModel(LanguageModel):
    """Where a stage may run."""

    require: PlainNames = ()
    """A label, or several: only pools that provide all of them."""
    prefer: str | None = None
    """First choice, instead of `require` …"""
    fallback: PlainNames = ()
    """… and then these, in order; each move is recorded with its reason."""
    pool: str | None = None
    """Exactly this pool."""
    resources: TaskResourcesModel | None = None
    """Amounts that one task needs."""
    timeout: Seconds | None = None
    """A task past it is stopped and counts as failed."""
    retries: Count = 0
    """How often a task of this stage that raised is tried again."""
    modifiers: Modifiers = ()
    """What wraps its execution: `[profile, {name: cuda.jit, params: {…}}]`."""

    @property
    def chosen_pool(self) -> str | None:
        """The pool in either spelling."""
        return self.pool or (self.resources.resource_pool if self.resources else None)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.chosen_pool is not None and (self.require or self.prefer is not None):
            raise ValueError("`pool` names exactly one pool and excludes `require` and `prefer`")
        return self


When = Literal["partition", "dataset", "final", "partition_end", "dataset_end", "run_end"]


class InputModel(LanguageModel):
    """An input by name. Short form: the name of a stage, source or join."""

    node: str
    """A stage, source or join."""
    port: str | None = None
    """Which of its results: `stream` (its events), `hist`, `cutflow`."""
    as_: str | None = Field(None, alias="as")
    """The name under which the operation sees it."""


class AppliesToModel(LanguageModel):
    """The datasets a stage runs on."""

    eventtype: Annotated[tuple[Literal["data", "mc"], ...], OneOrMany()] = ()
    """Only datasets of this type: `data` or `mc`."""
    datasets: PlainNames = ()
    """Only these datasets."""


class WriteModel(LanguageModel, extra="allow"):
    """Events of a stage written to files. Other keys are settings of the sink, such as `tree` or `compression`."""

    kind: str = "root_tree"
    """The sink: `root_tree`, `parquet`, or a plugin."""
    path: str | None = None
    """Below `products/`; `{dataset}` and `{part}` are filled in. Without it, the id of the stage. An absolute path must
    be allowed by `execution.write_outside`."""
    keep: PlainNames | None = None
    """Columns to write; without it, all."""
    use: str | None = None
    """A layout of `outputs` merged under this."""
    when: When = "partition"
    """`partition`: a file for each partition; `dataset`: one for each dataset, in its order; `final`: one for all."""
    from_: str | None = Field(None, alias="from")
    """Another stage whose events are written."""
    mode: Literal["recreate"] = "recreate"
    """Files are always written anew."""


class RenderModel(LanguageModel, extra="allow"):
    """A picture or table of a stage's product. Short form: the name of a style. Other keys are the renderer's."""

    style: str | Free | None = None
    """A name of `styles`, `{use: NAME, with: {…}}`, or the style itself."""
    use: str | None = None
    """A name of `styles`, as `style` takes it."""
    with_: Free | None = Field(None, alias="with")
    """Changes to that style."""
    op: str | None = None
    """The renderer, where no style names it: `hep.render.hist1d`."""
    out: str | None = None
    """File name below `plots/`, folders included; without it, the id of the stage. An absolute path must be allowed by
    `execution.write_outside`."""
    when: When = "final"
    """`final`: one picture when the run ends; `dataset`: one of each dataset; else not available yet, left out."""
    from_: str | None = Field(None, alias="from")
    """Another stage whose product is drawn."""


class PictureVariationsModel(LanguageModel):
    """A picture for each variation, of a stage that draws comparisons."""

    values: Annotated[tuple[str, ...], Field(min_length=1)]
    """The variations; `{variation}` in `out` is replaced by each."""
    axis: str | None = None
    """The axis of the histogram that has them, where it must have a certain name."""
    reference: str = "nominal"
    """The variation that each is compared with."""


class InspectModel(LanguageModel, extra="allow"):
    """A snapshot of the columns at a stage. Other keys are the observer's."""

    kind: str
    """`hep.branches` (names) or `hep.schema_snapshot` (names, types, makers)."""
    out: PlainName | None = None
    """The folder below `products/` for its files; without it, `branches` or `schema`."""


class StageModel(LanguageModel):
    """One step of the analysis."""

    id: PlainName
    """Its name: unique, and the name of what it leaves behind."""
    op: str
    """The operation it runs: `hep.hist`, or one of your own; or a renderer, which draws the products that
    `from` names, each under its `as`."""
    params: Free | None = None
    """The operation's own settings."""
    from_: Annotated[tuple[Annotated[InputModel, OrText("node")], ...], OneOrMany()] | None = Field(
        None, validation_alias=AliasChoices("from", "in")
    )
    """The input by name: a stage, a source or a join. `in` means the same."""
    needs: PlainNames | None = None
    """Stages that come before. Without it a stage follows the one before; several join branches; `[]` is none."""
    depends_on: PlainNames | None = None
    """Files that its results depend on: names or patterns, beside the workflow; a folder stands for all in it. After a
    change of one, the stage and all that follow it are computed again. Code reads them by `cenote.resource`."""
    role: Literal["transform", "sink"] | None = None
    """Accepted for FAST-HEP's sake: the operation says what it is."""
    applies_to: AppliesToModel | None = None
    """The datasets it runs on; without it, all."""
    scope: Literal["partition", "dataset", "run"] | None = None
    """How much data one call sees: needed for training, which wants all of it at once."""
    write: Annotated[tuple[WriteModel, ...], OneOrMany()] | None = None
    """Skims: its events written to files."""
    render: Annotated[tuple[Annotated[RenderModel, OrText("style")], ...], OneOrMany()] | None = None
    """Pictures and tables of its product."""
    inspect: Annotated[tuple[InspectModel, ...], OneOrMany()] | None = None
    """Snapshots of its columns, in files below `products/`."""
    execution: StageExecutionModel | None = None
    """Where it may run."""
    out: str | None = None
    """File name, for a stage whose operation is a renderer."""
    when: When | None = None
    """When it is drawn, for a stage whose operation is a renderer."""
    variations: PictureVariationsModel | None = None
    """A picture for each variation, for a stage whose operation is `hep.render.comparison`."""
