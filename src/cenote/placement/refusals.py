"""This file words the refusals: why no pool will ever run a stage, and the edit that would change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cenote.errors import BAD_VALUE, NEVER_FITS, UNKNOWN_POOL, Place, Problem
from cenote.language.workflow import Stage, Workflow
from cenote.names import did_you_mean, listed
from cenote.placement.pools import Candidate
from cenote.placement.resources import amount, in_words, lacking, share, unstated
from cenote.placement.routes import Labels, Route
from cenote.placement.sizing import Sized

_MOST_POOLS_LISTED = 12
_VERBS = {"require": "requires", "prefer": "prefers", "fallback": "falls back to", "pool": "names"}


def unknown_names(workflow: Workflow, labels: Labels) -> list[Problem]:
    """Names in `execution` itself that no pool answers to: the defaults, and the pools' own fallbacks."""
    execution = workflow.execution
    pools = [pool.name for pool in execution.pools]
    defaults = (("cpu", execution.default_cpu), ("gpu", execution.default_gpu))
    found = [
        _unknown(workflow.place(*execution.path, "defaults", kind), f"the default {kind.upper()} pool", name, pools)
        for kind, name in defaults
        if name is not None and name not in pools
    ]
    found += [
        _unknown(
            workflow.place(*pool.path, "fallback", i), f"to which pool '{pool.name}' falls back", name, pools, labels
        )
        for pool in execution.pools
        for i, name in enumerate(pool.fallback)
        if name not in labels.pools_by_label
    ]
    return found


def _unknown(place: Place | None, role: str, name: str, pools: list[str], labels: Labels | None = None) -> Problem:
    known = labels.pools_by_label if labels else pools
    return Problem(
        kind=UNKNOWN_POOL,
        message=f"there is no pool '{name}', {role}",
        place=place,
        details=(f"pools in this file: {listed(pools)}",),
        hint=did_you_mean(name, known) or f"define it under execution.pools, or name one of {listed(pools)}",
    )


def no_default(stages: Sequence[Stage], *, gpu: bool, workflow: Workflow, labels: Labels) -> Problem | None:
    """Stages name no pool and nothing says which one is meant; None where the wrong default is reported already."""
    execution = workflow.execution
    if (execution.default_gpu if gpu else execution.default_cpu) is not None:
        return None
    kind, key = ("GPU", "gpu") if gpu else ("CPU", "cpu")
    others = f" (nor do {len(stages) - 1} others)" if len(stages) > 1 else ""
    names = [pool.name for pool in execution.pools if not gpu or pool.resources.gpus]
    if not names:
        return Problem(
            kind=NEVER_FITS,
            message=f"stage '{stages[0].id}' asks for {in_words(stages[0].requirement.amounts.gpus or 0, 'gpus')}, "
            "and no pool has any",
            place=place_of(stages[0], workflow, "resources", "gpus"),
            details=(f"pools in this file: {listed(pool.name for pool in execution.pools)}",),
            hint="give a pool GPUs: `resources: {gpus: 1}`",
        )
    example = next(iter(sorted(labels.named(names[0]))), names[0])
    return Problem(
        kind=UNKNOWN_POOL,
        message=f"stage '{stages[0].id}' names no pool{others}, and nothing says which is the default {kind} pool",
        place=place_of(stages[0], workflow),
        details=(f"pools in this file: {listed(names)}",),
        hint=f"write `execution: {{defaults: {{{key}: {example}}}}}`"
        + ("" if gpu else ", or call one of the pools `default`"),
    )


def refusal(
    stage: Stage, route: Route, considered: Sequence[Candidate], sizes: Mapping[str, Sized], workflow: Workflow
) -> list[Problem]:
    """Why this stage can never run, where it was written."""
    if route.unknown:
        return [_unknown_label(stage, key, name, sizes, workflow) for key, name in route.unknown]
    if not route.allowed:
        return [_no_pool_provides_all(stage, sizes, workflow)]
    return [_nothing_fits(stage, route, considered, sizes, workflow)]


def unreachable_fallback(stage: Stage, route: Route, labels: Labels, workflow: Workflow) -> Problem | None:
    """A fallback that `require` or `pool` forbids: silence would let somebody count on it."""
    asked = stage.requirement
    if route.unknown or (asked.pool is None and not asked.labels):
        return None
    lost = [name for name in asked.fallback if not set(labels.named(name)) <= set(route.allowed)]
    if not lost:
        return None
    key, value = ("pool", asked.pool) if asked.pool is not None else ("require", ", ".join(asked.labels))
    return Problem(
        kind=BAD_VALUE,
        message=f"stage '{stage.id}' can never fall back to '{lost[0]}': `{key}: {value}` allows no other pool",
        place=place_of(stage, workflow, "fallback"),
        hint=f"write `prefer: {value}` instead of `{key}: {value}`",
    )


def place_of(stage: Stage, workflow: Workflow, *keys: str | int) -> Place | None:
    """Where the stage's `execution` says this, or the nearest thing around it."""
    return workflow.place(*(stage.requirement.path or (*stage.path, "execution")), *keys)


def _unknown_label(stage: Stage, key: str, name: str, sizes: Mapping[str, Sized], workflow: Workflow) -> Problem:
    labels = {label for size in sizes.values() for label in size.pool.labels}
    known: Iterable[str] = sizes if key == "pool" else labels
    verb = _VERBS[key]
    message = (
        f"there is no pool '{name}', which stage '{stage.id}' {verb}"
        if key == "pool"
        else f"no pool provides '{name}', which stage '{stage.id}' {verb}"
    )
    details = [f"pools in this file: {listed(sizes)}"]
    if further := labels - set(sizes):
        details.append(f"further labels: {listed(further)}")
    if key == "pool" and name in labels:
        hint: str | None = f"'{name}' is a label: write `require: {name}`"
    else:
        hint = did_you_mean(name, known)
    position = {"require": stage.requirement.labels, "fallback": stage.requirement.fallback}.get(key)
    keys: tuple[str | int, ...] = (key, position.index(name)) if position else (key,)
    return Problem(
        kind=UNKNOWN_POOL,
        message=message,
        place=place_of(stage, workflow, *keys),
        details=tuple(details),
        hint=hint or f"add a pool called '{name}', or `provides: [{name}]` to one of these",
    )


def _no_pool_provides_all(stage: Stage, sizes: Mapping[str, Sized], workflow: Workflow) -> Problem:
    wanted = stage.requirement.labels
    named = [stage.requirement.pool] if stage.requirement.pool is not None else list(sizes)
    partly = [name for name in named if sizes[name].pool.labels & set(wanted)]
    details = [
        f"pool '{name}' does not provide {listed(set(wanted) - sizes[name].pool.labels)}" for name in (partly or named)
    ]
    return Problem(
        kind=UNKNOWN_POOL,
        message=f"no pool provides everything that stage '{stage.id}' requires: {', '.join(wanted)}",
        place=place_of(stage, workflow, "require"),
        details=_cut(details),
        hint=f"add the missing label to `provides` of pool '{(partly or named)[0]}', or require less",
    )


def _nothing_fits(
    stage: Stage, route: Route, considered: Sequence[Candidate], sizes: Mapping[str, Sized], workflow: Workflow
) -> Problem:
    asked = stage.requirement.amounts
    allowed = [sizes[name] for name in route.allowed]
    short = next((kinds for size in allowed if (kinds := lacking(size.share, asked))), ())
    reasons = {candidate.pool: candidate.reason for candidate in considered}
    details = [f"pool '{size.pool.name}' {reasons[size.pool.name]}" for size in allowed]
    if not short:
        return Problem(
            kind=NEVER_FITS,
            message=f"stage '{stage.id}' can only run in {_pools(route.allowed)}, which never "
            f"{'has' if len(allowed) == 1 else 'have'} a worker",
            place=place_of(stage, workflow, "pool" if stage.requirement.pool else "require"),
            details=_cut(details),
            hint=f"give pool '{route.allowed[0]}' workers, or `elastic: {{min: 0, max: 4}}`",
        )
    kind = short[0]
    wanted = in_words(amount(asked, kind) or 0, kind)
    return Problem(
        kind=NEVER_FITS,
        message=f"no worker that stage '{stage.id}' may use has {wanted} for one task",
        place=place_of(stage, workflow, "resources", kind),
        details=_cut([*details, _largest_of_all(kind, sizes)]),
        hint=_edit(stage, route, sizes, kind),
    )


def _edit(stage: Stage, route: Route, sizes: Mapping[str, Sized], kind: str) -> str:
    """The smallest change that makes the stage fit."""
    asked = stage.requirement.amounts
    wanted = in_words(amount(asked, kind) or 0, kind)
    for size in (sizes[name] for name in route.allowed):
        if size.slots > 1 and not lacking(share(size.worker, 1), asked) and not size.empty:
            fewer = max(n for n in range(1, size.slots) if not lacking(share(size.worker, n), asked))
            return f"write `slots: {fewer}` for pool '{size.pool.name}', whose worker is large enough when not divided"
    able = [
        name
        for name, size in sizes.items()
        if not size.empty and not lacking(size.share, asked) and not unstated(size.worker, asked)
    ]
    if able and stage.requirement.pool is not None:
        return f"write `pool: {able[0]}`, which has enough"
    if able:
        return f"write `require: {able[0]}`, which has enough"
    return f"give pool '{route.allowed[0]}' at least {wanted} per slot, or let the stage ask for less"


def _largest_of_all(kind: str, sizes: Mapping[str, Sized]) -> str:
    held = {name: (amount(size.worker, kind) or 0) / size.slots for name, size in sizes.items()}
    largest = max(held, key=lambda name: held[name])
    if not held[largest]:
        return "no pool has any"
    return f"the largest is '{largest}' with {in_words(held[largest], kind)} per slot"


def _pools(names: Sequence[str]) -> str:
    return f"pool '{names[0]}'" if len(names) == 1 else f"the pools {listed(names)}"


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= _MOST_POOLS_LISTED:
        return tuple(lines)
    return (*lines[:_MOST_POOLS_LISTED], f"… and {len(lines) - _MOST_POOLS_LISTED} more")
