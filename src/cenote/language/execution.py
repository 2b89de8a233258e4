"""Define what a file says of pools and of the run: each key once, checked by its type, explained below its field."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Annotated, Any, TypeVar

from cenote.common.values import dataclass
from cenote.language.plugins.quantities import Memory, Seconds
from cenote.language.schema.forms import (
    WRITTEN,
    Amount,
    Count,
    Credentials,
    EnvironmentSpec,
    Factor,
    Flag,
    Folders,
    Free,
    OrNothing,
    OrText,
    PlainNames,
    Positive,
    StorePath,
    StrategyName,
    VariableNames,
)

Written = TypeVar("Written", bound="PoolTerms | ExecutionSettings")


@dataclass(frozen=True)
class Amounts:
    """Hardware in numbers."""

    __pydantic_config__ = WRITTEN

    cpus: Amount | None = None
    """Processor cores."""
    memory: Memory | None = None
    """Memory, such as `4GB`."""
    gpus: Count | None = None
    """Graphics processors."""
    disk: Memory | None = None
    """Scratch space, such as `50GB`."""

    def over(self, others: Amounts) -> Amounts:
        """These amounts, and those of the others where these say nothing."""
        own = {kind: getattr(self, kind) for kind in AMOUNTS}
        return Amounts(**{kind: getattr(others, kind) if own[kind] is None else own[kind] for kind in AMOUNTS})


AMOUNTS = tuple(amount.name for amount in fields(Amounts))
"""The kinds of amounts: `cpus`, `memory`, `gpus`, `disk`."""


@dataclass(frozen=True, kw_only=True)
class Elastic:
    """How a pool grows and shrinks."""

    __pydantic_config__ = WRITTEN

    min: Count = 0
    """Smallest number of workers."""
    max: Positive
    """Largest number of workers."""
    idle_slots: Count = 0
    """Free slots kept ready for work to come."""
    idle_time: Seconds = 300
    """How long a worker may be idle before it is given back."""
    resize_period: Seconds = 30
    """Time between two decisions."""
    resize_factor: Factor = 1.0
    """Share of the wanted change that one decision makes."""

    def __post_init__(self) -> None:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) should not be more than max ({self.max})")


@dataclass(frozen=True)
class FallbackWhen:
    """When work that waits in a pool may move on to the pools of `fallback`."""

    __pydantic_config__ = WRITTEN

    no_worker_for: Seconds | None = None
    """The pool had no worker for this long."""
    preempted: Positive | None = None
    """A task lost its worker to preemption this many times."""
    oom: Flag = False
    """A task needed more memory than a worker has."""


@dataclass(frozen=True)
class PoolSize:
    """How many workers, and how many tasks at once on each."""

    workers: Count | None = None
    """Fixed size. Without it and without `elastic`, a local pool has one worker per core."""
    elastic: Elastic | None = None
    """Grows and shrinks with the work, instead of `workers`."""
    slots: Positive | None = None
    """Tasks at once per worker; its cpus, memory and gpus are divided by it."""


@dataclass(frozen=True)
class PoolTerms:
    """Settings of a pool that readers of `plan.json` need too; a new one of these is a field here."""

    fallback_when: Annotated[FallbackWhen, OrNothing()] = field(default_factory=FallbackWhen)
    """When work that waits here moves on to the pools of `fallback`."""
    queue_timeout: Seconds | None = None
    """No worker by then: its tasks fall back, or fail with that reason."""
    cost: Amount | None = None
    """Of one worker for one hour, in any unit: reports add it up."""


@dataclass(frozen=True)
class PoolSettings(PoolTerms, PoolSize):
    """What a file says of a pool where nothing needs resolving. Any other new setting is a field here."""

    __pydantic_config__ = WRITTEN

    provides: PlainNames = ()
    """Further labels that stages may `require`; a pool always provides its own name and its resource class."""
    strategy: StrategyName | None = None
    """How its workers are started, where it differs from the run's."""
    fallback: PlainNames = ()
    """Pools that take over work waiting here, in this order."""
    environment: EnvironmentSpec | None = None
    """Own software; else the run's."""
    credentials: Credentials | None = None
    """What its workers need to reach protected data, instead of the run's."""
    pass_variables: VariableNames | None = None
    """Environment variables of your shell that its workers get, instead of the run's."""
    config: Annotated[Free, OrNothing()] = field(default_factory=dict)
    """Settings of the strategy: `walltime`, `partition`, `account`, …"""

    def __post_init__(self) -> None:
        if self.workers is not None and self.elastic is not None:
            raise ValueError("should have `workers` or `elastic`, not both")


@dataclass(frozen=True)
class _Named:
    name: str


@dataclass(frozen=True)
class Pool(PoolSettings, _Named):
    """A pool with its name; its profile and its resource class are resolved."""

    resources: Amounts = Amounts()
    """What one worker has."""
    resource_class: str | None = None
    """The resource class that the file names; the pool provides this label too."""

    @property
    def path(self) -> tuple[str, str, str]:
        """Where it stands in the document."""
        return ("execution", "pools", self.name)

    @property
    def labels(self) -> frozenset[str]:
        """Everything a `require` may name to reach this pool."""
        own = {self.name, *self.provides}
        return frozenset(own | {self.resource_class} if self.resource_class else own)


@dataclass(frozen=True)
class DefaultPools:
    """Pools for stages that name none."""

    __pydantic_config__ = WRITTEN

    cpu: str | None = None
    """For stages without GPUs; else the pool called `default`, else the only pool."""
    gpu: str | None = None
    """For stages whose amounts hold GPUs."""


@dataclass(frozen=True)
class RunLimits:
    """How much may go wrong before a task or a pool fails. A stage's own errors are counted by its
    `retries`."""

    __pydantic_config__ = WRITTEN

    lost: Count = 3
    """Times that a task moves to another worker after its worker was lost; the next loss fails it. It does, too, where
    a stage lost so many times n workers in a pool of n, and one more, before any of its tasks was done."""
    crashed: Count = 1
    """Times that a task is tried again after it crashed its worker; the next crash fails it."""
    preempted: Count = 20
    """Times that a task moves to another worker after the batch system took its worker; the next time fails it."""
    walltime: Count = 4
    """Times that a task moves to another worker because its worker's walltime ended first; the next time fails it."""
    splits: Positive = 16
    """Largest number of pieces that a partition is split into when it does not fit into memory."""
    pool: Positive = 3
    """A pool of n workers fails after it lost this many times n + 1 workers in a row without finishing a task."""
    no_worker_for: Seconds = 60
    """Time without a worker after which waiting tasks move to a fallback, unless the pool's `fallback_when` says. A
    pool whose workers start, but do not reach the driver, waits for so long at the least before it fails."""


@dataclass(frozen=True)
class StoreSettings:
    """Where results are kept for later runs, of whichever folder and workflow, and how many."""

    __pydantic_config__ = WRITTEN

    path: StorePath | None = None
    """The folder of the store, which may be shared by a group: `/group/store`, or an address: `s3://bucket/store`.
    `run` keeps results in the run's own folder. Default: what the variable `CENOTE_STORE` says, else `results` in the
    user's cache."""
    limit: Memory = 20_000_000_000
    """Results of partitions and merges stay up to this size, so that a run after a change computes what the change
    touches: a file that is added, and not the others. What was of no use for longest goes first, and never what a run
    in progress needs. `0`: none of them stays."""


JOINED_BACKEND = "dask"
"""The backend where strategies start workers on other machines and the file names none."""


@dataclass(frozen=True)
class ExecutionSettings:
    """Where and how the workflow runs.

    The keys of `execution` that mean what they say. A new one is a field here, with its docstring.
    """

    __pydantic_config__ = WRITTEN

    backend: str = "local"
    """How tasks are executed: `local`, `dask`, or a plugin. Default `dask` where a batch strategy is named."""
    strategy: StrategyName = "local"
    """How workers are started: `local`, `htcondor`, `slurm`, or a plugin; a pool may have its own."""
    defaults: Annotated[DefaultPools, OrNothing()] = field(default_factory=DefaultPools)
    """Pools for stages that name none."""
    environment: EnvironmentSpec | None = None
    """The software that workers run; without it, the one that runs this command (`current`)."""
    credentials: Credentials = ()
    """What workers need to reach protected data: `none`, or plugins."""
    pass_variables: VariableNames = ()
    """Environment variables of your shell that workers get besides the usual ones (`PATH`, `LANG`, `OMP_*`, …):
    `[CALIBRATION, ANALYSIS_*]`. No others come along. Not for secrets: batch systems write values down."""
    limits: Annotated[RunLimits, OrNothing()] = field(default_factory=RunLimits)
    """How often tasks are tried again when workers are lost, and how long they wait for one."""
    store: Annotated[StoreSettings, OrNothing(), OrText("path")] = field(default_factory=StoreSettings)
    """Where results are kept for later runs, and how many: `{path: /group/store, limit: 50GB}`, or the path alone."""
    write_outside: Folders = ()
    """Folders outside the run's own where `write.path` and `render.out` may put results, as absolute paths below one of
    them: `[/data/skims]`. Without it every result stays in the run's folder. `--fresh` removes nothing there."""
    config: Annotated[Free, OrNothing()] = field(default_factory=dict)
    """The strategy's and backend's settings for all pools."""


def settings_of(value: Written, kind: type[Written]) -> dict[str, Any]:  # Any: each field has its own type
    """The fields that a value has from this class, for another value that has them too."""
    return {setting.name: getattr(value, setting.name) for setting in fields(kind)}
