"""Describe `execution`: where and how a workflow runs, for the whole file and for one stage."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from cenote.language.execution import Amounts, ExecutionSettings, PoolSettings
from cenote.language.schema.forms import (
    Count,
    Free,
    OneOrMany,
    OrText,
    PlainName,
    PlainNames,
)
from cenote.language.schema.model import LanguageModel
from cenote.plugins.settings import Seconds
from cenote.values import dataclass


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
