"""Find the pools that a stage allows, by name and label alone, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cenote.common.values import dataclass
from cenote.language.execution import Pool
from cenote.language.workflow import Execution, Requirement


@dataclass(frozen=True)
class Route:
    """The pools that a requirement allows, before anybody asks whether they are large enough."""

    allowed: tuple[str, ...]
    shared: bool
    """Whether they share the work rather than being tried one after the other."""
    because: str
    """`requires 'gpu'`: the reason, in words that follow the stage's name."""
    inside: str
    """Why these pools are: `provides 'gpu'`."""
    outside: str
    """Why the other pools are none of them."""
    unknown: tuple[tuple[str, str], ...] = ()
    """Names that no pool answers to: the key of the stage's `execution`, and the name."""
    default: bool = False
    """Whether it names nothing and so takes a default pool."""


@dataclass(frozen=True)
class Labels:
    """Who answers to which name."""

    execution: Execution
    pools_by_label: Mapping[str, tuple[str, ...]]
    default_cpu: str | None
    default_gpu: str | None

    @classmethod
    def of(cls, execution: Execution) -> Labels:
        """Every label of every pool, in the order written."""
        found: dict[str, list[str]] = {}
        for pool in execution.pools:
            for label in pool.labels:
                found.setdefault(label, []).append(pool.name)
        return cls(
            execution=execution,
            pools_by_label={label: tuple(names) for label, names in found.items()},
            default_cpu=default_pool(execution),
            default_gpu=default_gpu_pool(execution),
        )

    def named(self, name: str) -> tuple[str, ...]:
        """The pools that answer to this name, in the order written: a pool provides its own name too."""
        return self.pools_by_label.get(name, ())

    def providing(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The pools that provide all of these, in the order written."""
        wanted = [frozenset(self.pools_by_label.get(label, ())) for label in labels]
        return tuple(pool.name for pool in self.execution.pools if all(pool.name in names for names in wanted))


def states_nothing(pool: Pool) -> bool:
    """Whether a pool leaves everything open: its worker then takes the shape that its stages ask for."""
    return pool.resources == type(pool.resources)() and (pool.workers, pool.elastic, pool.slots) == (None, None, None)


def default_pool(execution: Execution) -> str | None:
    """The pool for stages that name none; None where the file does not say which."""
    names = [pool.name for pool in execution.pools]
    if execution.defaults.cpu is not None:
        return execution.defaults.cpu if execution.defaults.cpu in names else None
    if "default" in names:
        return "default"
    return names[0] if len(names) == 1 else None


def default_gpu_pool(execution: Execution) -> str | None:
    """The pool for stages that name none and ask for GPUs; None where the file does not say which."""
    names = [pool.name for pool in execution.pools]
    if execution.defaults.gpu is not None:
        return execution.defaults.gpu if execution.defaults.gpu in names else None
    able = [pool.name for pool in execution.pools if pool.resources.gpus or states_nothing(pool)]
    for usual in ("default", "gpu"):
        if usual in able:
            return usual
    if len(able) == 1:
        return able[0]
    return names[0] if len(names) == 1 else None


def route(requirement: Requirement, labels: Labels) -> Route:
    """What a stage's `execution` says about pools."""
    unknown = _unknown(requirement, labels)
    if requirement.pool is not None:
        return _exactly(requirement.pool, requirement, labels, unknown)
    if requirement.prefer is not None or requirement.fallback:
        return _in_order(requirement, labels, unknown)
    if requirement.labels:
        wanted = _quoted(requirement.labels)
        pools = () if unknown else labels.providing(requirement.labels)
        return Route(
            allowed=pools,
            shared=len(pools) > 1,
            because=f"requires {wanted}",
            inside=f"provides {wanted}",
            outside=f"does not provide {wanted}",
            unknown=unknown,
        )
    return _default(requirement, labels)


def _exactly(name: str, requirement: Requirement, labels: Labels, unknown: tuple[tuple[str, str], ...]) -> Route:
    able = name in labels.providing(requirement.labels)
    outside = f"is not the pool '{name}' that the stage names"
    if not able and not unknown:
        outside += f", which does not provide {_quoted(requirement.labels)}"
    return Route(
        allowed=(name,) if able and not unknown else (),
        shared=False,
        because=f"names the pool '{name}'",
        inside="is the pool that the stage names",
        outside=outside,
        unknown=unknown,
    )


def _in_order(requirement: Requirement, labels: Labels, unknown: tuple[tuple[str, str], ...]) -> Route:
    """`prefer`, then `fallback`. Without `prefer`, what the stage requires (or the default pool) comes first."""
    if requirement.prefer is not None:
        first, because = labels.named(requirement.prefer), f"prefers '{requirement.prefer}'"
    elif requirement.labels:
        first, because = labels.providing(requirement.labels), f"requires {_quoted(requirement.labels)}"
    else:
        started = _default(requirement, labels)
        first, because = started.allowed, started.because
    able = set(labels.providing(requirement.labels))
    later = [pool for name in requirement.fallback for pool in labels.named(name)]
    ordered = tuple(name for name in dict.fromkeys([*first, *later]) if name in able)
    if requirement.fallback:
        because += f", then {_quoted(requirement.fallback)}"
    return Route(
        allowed=() if unknown else ordered,
        shared=len(ordered) > 1 and not later,
        because=because,
        inside="is one of the stage's choices",
        outside="is neither preferred by the stage nor one of its fallbacks",
        unknown=unknown,
    )


def _default(requirement: Requirement, labels: Labels) -> Route:
    kind = "GPU" if requirement.amounts.gpus else "CPU"
    name = labels.default_gpu if requirement.amounts.gpus else labels.default_cpu
    asks = "asks for GPUs and names no pool" if requirement.amounts.gpus else "names no pool"
    return Route(
        allowed=(name,) if name else (),
        shared=False,
        because=f"{asks}: it takes the default {kind} pool",
        inside=f"is the default {kind} pool",
        outside=f"is not the default {kind} pool: a stage that names no pool takes no other",
        default=True,
    )


def _unknown(requirement: Requirement, labels: Labels) -> tuple[tuple[str, str], ...]:
    """The names that nothing answers to. `pool` takes the names of pools only."""
    pool_names = {pool.name for pool in labels.execution.pools}
    named = [("require", label) for label in requirement.labels]
    named += [("prefer", requirement.prefer)] if requirement.prefer is not None else []
    named += [("fallback", name) for name in requirement.fallback]
    missing = [(key, name) for key, name in named if name not in labels.pools_by_label]
    if requirement.pool is not None and requirement.pool not in pool_names:
        missing.append(("pool", requirement.pool))
    return tuple(missing)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
