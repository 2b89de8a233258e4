"""Describe `execution`: where and how a workflow runs, for the whole file and for one stage."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from cenote.language.schema.forms import (
    Amount,
    Count,
    Free,
    LanguageModel,
    OneOrMany,
    OrText,
    PlainName,
    PlainNames,
    Positive,
)
from cenote.plugins.settings import Memory, Seconds


class ResourcesModel(LanguageModel):
    """Hardware in numbers."""

    cpus: Amount | None = None
    """Processor cores."""
    memory: Memory | None = None
    """Memory, such as `4GB`."""
    gpus: Count | None = None
    """Graphics processors."""
    disk: Memory | None = None
    """Scratch space, such as `50GB`."""


class TaskResourcesModel(ResourcesModel):
    """What one task needs."""

    resource_pool: str | None = None
    """Another spelling of `pool`, for those who come from Determined."""


class PoolResourcesModel(ResourcesModel):
    """What one worker of a pool has: amounts, the name of a resource class, or a class with amounts changed."""

    class_: str | None = Field(None, alias="class")
    """A class of `execution.resources`; `resources: big` is short for it. The pool provides this label too."""


class ElasticModel(LanguageModel):
    """How a pool grows and shrinks."""

    min: Count = 0
    """Workers that are always kept."""
    max: Positive
    """Workers at the most."""
    idle_slots: Count = 0
    """Free slots kept ready for work to come."""
    idle_time: Seconds = 300
    """A worker without work for so long is given back."""
    resize_period: Seconds = 30
    """Time between two decisions."""
    resize_factor: Annotated[Amount, Field(gt=0)] = 1.0
    """Share of the wanted change that one decision makes."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) should not be more than max ({self.max})")
        return self


class FallbackWhenModel(LanguageModel):
    """When work that waits in a pool may move on to the pools of `fallback`."""

    no_worker_for: Seconds | None = None
    """The pool had no worker for so long."""
    preempted: Positive | None = None
    """A task lost its worker so many times."""
    oom: bool = False
    """A task needed more memory than a worker has."""


class ModifierModel(LanguageModel):
    """Something that wraps the execution of a stage. Short form: its name."""

    name: str
    """The modifier: `profile`, `gpu.preload`, `cuda.jit`, or a plugin."""
    params: Free | None = None
    """Its own settings."""


Modifiers = Annotated[tuple[Annotated[ModifierModel, OrText("name")], ...], OneOrMany()]


class EnvironmentModel(LanguageModel, extra="allow"):
    """The software that workers run. Short form: its type."""

    type: str
    """`current`, or a plugin; the other keys are its own."""


class CredentialModel(LanguageModel, extra="allow"):
    """What proves to others who the user is. Short form: its type."""

    type: str
    """`none`, or a plugin; the other keys are its own."""


Environment = Annotated[EnvironmentModel, OrText("type")]
Credentials = Annotated[tuple[Annotated[CredentialModel, OrText("type")], ...], OneOrMany()]


class PoolModel(LanguageModel):
    """A named group of alike workers."""

    use: str | None = None
    """A pool profile merged under this pool: `standard_worker`, `gpu_worker`, or one of `pool_profiles`."""
    workers: Count | None = None
    """Fixed size. Without it and without `elastic`, a local pool has one worker per core."""
    elastic: ElasticModel | None = None
    """Grows and shrinks with the work, instead of `workers`."""
    slots: Positive | None = None
    """Tasks at once per worker; its cpus, memory and gpus are divided by it."""
    resources: Annotated[PoolResourcesModel, OrText("class")] | None = None
    """What one worker has: amounts, or the name of a resource class."""
    provides: PlainNames = ()
    """Further labels that stages may `require`; a pool always provides its own name and its resource class."""
    strategy: str | None = None
    """How its workers come to exist, where it differs from the run's."""
    fallback: PlainNames = ()
    """Pools that take over work waiting here, in this order."""
    fallback_when: FallbackWhenModel | None = None
    """When they do."""
    queue_timeout: Seconds | None = None
    """No worker by then: its tasks fall back, or fail with that reason."""
    environment: Environment | None = None
    """Own software; else the run's."""
    credentials: Credentials | None = None
    """What its workers need to reach protected data, instead of the run's."""
    cost: Amount | None = None
    """Of one worker for one hour, in any unit: reports add it up."""
    config: Free | None = None
    """Settings of the strategy: `walltime`, `partition`, `account`, …"""

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.workers is not None and self.elastic is not None:
            raise ValueError("should have `workers` or `elastic`, not both")
        return self


class DefaultsModel(LanguageModel):
    """Pools for stages that name none."""

    cpu: str | None = None
    """For stages without GPUs; else the pool called `default`, else the only pool."""
    gpu: str | None = None
    """For stages whose amounts hold GPUs."""


class ExecutionModel(LanguageModel):
    """Where and how the workflow runs."""

    backend: str = "local"
    """How tasks get executed: `local`, `dask`, or a plugin. Where a batch strategy is named and this is not, `dask`."""
    strategy: str = "local"
    """How workers come to exist: `local`, `htcondor`, `slurm`, or a plugin; a pool may have its own."""
    profiles: PlainNames | None = None
    """Profiles merged under this file."""
    defaults: DefaultsModel | None = None
    """Pools for stages that name none."""
    resources: dict[PlainName, ResourcesModel] | None = None
    """Named resource classes, for pools that say `resources: NAME`."""
    pools: dict[PlainName, PoolModel] | None = None
    """What workers exist, by the name of their pool."""
    environment: Environment | None = None
    """The software that workers run; without it, the one that runs this command (`current`)."""
    credentials: Credentials = ()
    """What workers need to reach protected data; `none` and plugins."""
    modifiers: Modifiers = ()
    """Modifiers on every stage."""
    staging: Free | None = None
    """Accepted for FAST-HEP's sake: files reach workers without it."""
    config: Free | None = None
    """The strategy's and backend's settings for all pools."""


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
            raise ValueError("`pool` names exactly one pool, so that `require` and `prefer` have nothing to choose")
        return self
