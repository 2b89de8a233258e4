"""Decide which pools may run each stage, in which order, or the reason why none ever can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cenote.common.errors import Problem, unique
from cenote.common.machine import Machine
from cenote.common.text import format_amount
from cenote.common.values import dataclass
from cenote.language.execution import Amounts, Pool
from cenote.language.plugins.registry import runs_here, starts_here
from cenote.language.workflow import Execution, Requirement, Stage, Workflow
from cenote.planning.placement.pools import Candidate, Placement, StagePlacement, Verdict, amount, lacking, unstated
from cenote.planning.placement.refusals import Refusals
from cenote.planning.placement.routes import Labels, Route, route
from cenote.planning.placement.sizing import Sized, missing_here, placed, sized

_Wish = tuple[tuple[str, ...], str | None, tuple[str, ...], str | None, Amounts]
"""What of a requirement decides its placement: stages with equal wishes are placed once."""


@dataclass(frozen=True)
class _Answer:
    route: Route
    placement: StagePlacement
    """Of the first stage with this wish; the others differ by name only."""


def place(workflow: Workflow, machine: Machine, *, on_this_machine: bool = True, strict: bool = False) -> Placement:
    """Where every stage may run, with a verdict and a reason for each, and everything that is wrong.

    Pools whose workers start `on_this_machine` still route and limit, but their sizes are scaled down to the `machine`,
    and hardware that it lacks is a warning, or with `strict` a problem.
    """
    execution = workflow.execution
    labels = Labels.of(execution)
    wishes = {_wish(stage.requirement): stage for stage in reversed(workflow.stages)}
    routes = {wish: route(stage.requirement, labels) for wish, stage in wishes.items()}
    sizes = {pool.name: sized(pool, _asked(pool, routes)) for pool in execution.pools}
    answers = {wish: _answer(wish, routes[wish], sizes) for wish in wishes}
    stages = tuple(replace(answers[_wish(stage.requirement)].placement, stage=stage.id) for stage in workflow.stages)
    here = {pool.name for pool in execution.pools if on_this_machine and _starts_here(pool, execution)}
    merge_pool = _merge_pool(labels, sizes)
    used = {name for answer in answers.values() for name in answer.placement.pools} | {merge_pool}
    missing = [
        found
        for name, size in sizes.items()
        if name in here and name in used and (found := missing_here(size, machine, workflow))
    ]
    problems = _problems(Refusals(workflow, labels, sizes), answers)
    return Placement(
        pools=tuple(placed(size, execution, labels, machine if name in here else None) for name, size in sizes.items()),
        stages=stages,
        warnings=(*_passed_over(wishes, answers, sizes), *(() if strict else (warning for _, warning in missing))),
        problems=tuple(unique([*problems, *(refusal for refusal, _ in missing)] if strict else problems)),
        merge_pool=merge_pool,
    )


def _wish(asked: Requirement) -> _Wish:
    return (asked.labels, asked.prefer, asked.fallback, asked.pool, asked.amounts)


def _asked(pool: Pool, routes: Mapping[_Wish, Route]) -> list[Amounts]:
    """The distinct amounts of the stages that may come to this pool."""
    return list(dict.fromkeys(wish[-1] for wish, found in routes.items() if pool.name in found.allowed))


def _starts_here(pool: Pool, execution: Execution) -> bool:
    """Whether its workers start on this machine: a pool may have its own strategy."""
    return runs_here(execution.backend) or starts_here(pool.strategy or execution.strategy)


def _answer(wish: _Wish, found: Route, sizes: Mapping[str, Sized]) -> _Answer:
    _, prefer, *_, asked = wish
    allowed = frozenset(found.allowed)
    considered = {
        name: _candidate(size, found, asked) if name in allowed else Candidate(name, False, found.outside)
        for name, size in sizes.items()
    }
    pools = tuple(name for name in found.allowed if considered[name].fits)
    if not pools:
        verdict, reason = Verdict.NEVER, _why_never(found, considered)
    elif waiting := [sizes[name] for name in pools if sizes[name].starts_empty]:
        ready = len(waiting) < len(pools)
        verdict = Verdict.YES if ready else Verdict.NOT_NOW
        reason = found.because if ready else f"{found.because}; {_why_not_now(waiting)}"
    else:
        verdict, reason = Verdict.YES, found.because
    return _Answer(
        route=found,
        placement=StagePlacement(
            stage="",
            pools=pools,
            verdict=verdict,
            reason=reason,
            shared=found.shared and len(pools) > 1,
            considered=tuple(considered.values()),
            passed_over=considered.get(prefer) if pools and prefer is not None and prefer not in pools else None,
        ),
    )


def _candidate(size: Sized, found: Route, asked: Amounts) -> Candidate:
    """Whether an allowed pool is large enough and will ever have a worker."""
    name = size.pool.name
    if size.empty and not size.says_how_to_wait:
        key = "elastic.max" if size.pool.elastic else "workers"
        return Candidate(name, False, f"will never have a worker: its `{key}` is 0")
    if short := lacking(size.share, asked):
        return Candidate(name, False, "; ".join(_shortage(size, asked, kind) for kind in short))
    trusted = unstated(size.worker, asked)
    if not trusted:
        return Candidate(name, True, found.inside)
    words = " and ".join(format_amount(amount(asked, kind) or 0, kind) for kind in trusted)
    return Candidate(name, True, f"{found.inside}; it does not declare its own, so {words} is assumed")


def _shortage(size: Sized, asked: Amounts, kind: str) -> str:
    """`holds 4 GB of memory, the stage asks for 40 GB of memory`."""
    whole = amount(size.worker, kind) or 0
    has, wanted = format_amount(whole, kind), format_amount(amount(asked, kind) or 0, kind)
    if size.slots > 1 and whole:
        share = format_amount(whole / size.slots, kind)
        return f"has {has} for {size.slots} slots, so {share} for one task; the stage asks for {wanted}"
    return f"has {has}; the stage asks for {wanted}"


def _why_never(found: Route, considered: Mapping[str, Candidate]) -> str:
    if found.unknown:
        names = ", ".join(f"'{name}'" for _, name in found.unknown)
        return f"{found.because}; no pool provides {names}"
    if not found.allowed:
        return f"{found.because}; there is none" if found.default else f"{found.because}; no pool provides that"
    return f"{found.because}; " + "; ".join(f"{name} {considered[name].reason}" for name in found.allowed)


def _why_not_now(waiting: list[Sized]) -> str:
    growing = [size.pool.name for size in waiting if size.pool.elastic and size.pool.elastic.max]
    if growing:
        return f"{', '.join(growing)} starts without workers and grows when tasks wait"
    return f"{', '.join(size.pool.name for size in waiting)} has no workers: tasks wait there until their timeout"


def _merge_pool(labels: Labels, sizes: Mapping[str, Sized]) -> str:
    """The pool called `merge`, else the default CPU pool, else the first that will have workers and no GPUs."""
    if "merge" in sizes:
        return "merge"
    if labels.default_cpu is not None:
        return labels.default_cpu
    ranked = sorted(sizes.values(), key=lambda size: (size.empty, bool(size.worker.gpus)))
    return ranked[0].pool.name if ranked else "default"


def _passed_over(
    wishes: Mapping[_Wish, Stage], answers: Mapping[_Wish, _Answer], sizes: Mapping[str, Sized]
) -> Iterator[str]:
    """A first choice that will never have a worker is passed over: say so, once per wish."""
    for wish, answer in answers.items():
        first, pools = answer.route.allowed[:1], answer.placement.pools
        if first and pools and first[0] not in pools and sizes[first[0]].empty:
            yield (
                f"stage '{wishes[wish].id}' {answer.route.because}; pool '{first[0]}' will never have a worker, "
                f"so it runs on '{pools[0]}'"
            )


def _problems(refusals: Refusals, answers: Mapping[_Wish, _Answer]) -> Iterator[Problem]:
    """Everything that is wrong, of all stages at once."""
    yield from refusals.of_names()
    undecided: dict[bool, list[Stage]] = {}
    for stage in refusals.workflow.stages:
        answer = answers[_wish(stage.requirement)]
        yield from refusals.of_fallback(stage, answer.route)
        if answer.placement.verdict is not Verdict.NEVER:
            continue
        if answer.route.default and not answer.route.allowed:
            undecided.setdefault(bool(stage.requirement.amounts.gpus), []).append(stage)
        else:
            yield from refusals.of_stage(stage, answer.route, answer.placement)
    for gpu, stages in undecided.items():
        yield from refusals.of_stages_without_default(stages, gpu=gpu)
