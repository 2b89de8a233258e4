"""State in words why a run or a stage is where it is: data, pool, workers, batch system, fallback timers.

Everything comes from the journal, so that asking never disturbs the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cenote.common import errors
from cenote.common.text import RUN_STATUSES, did_you_mean, listed, plural
from cenote.common.units import format_seconds
from cenote.engine.recovery.moving import time_to_leave
from cenote.engine.task_classes import CandidatePools
from cenote.execution.runs.changed.code import tasks_in_words
from cenote.execution.runs.summary import PoolRecord, StageRecord, seconds_from
from cenote.execution.runs.view.pool_words import pool_word
from cenote.execution.runs.view.task_names import stages_for_people
from cenote.execution.runs.view.view import RunView
from cenote.planning.probes.result import in_a_sentence
from cenote.planning.record import PlannedPool, PlannedSegment

A_MOMENT = 5.0
"""Seconds that a stage may wait for a worker before the progress view says why."""
_MOST_STAGES = 12
_LINES_SHOWN = 3
_CUT_OFF = f"{RUN_STATUSES['interrupted']}, continue with `cenote run`"


def explain_run(view: RunView, *, status: str | None = None) -> str:
    """One line on the whole, then a paragraph for every stage that is not done.

    The journal cannot say that nothing drives the run any more: `status` is then `interrupted`.
    """
    tasks = view.tasks
    cut_off = status == "interrupted"
    whole = f"The run {_CUT_OFF if cut_off else RUN_STATUSES[status or view.status]}: "
    whole += f"{tasks.done} of {tasks.total} tasks done"
    whole += f", {tasks.running} running" if tasks.running and not cut_off else ""
    whole += f", {tasks.failed} failed" if tasks.failed else ""
    unfinished = [stage for stage in _one_of_each_segment(view) if stage.done < stage.tasks]
    silent = [] if view.finished or cut_off else [f"{line[0].upper()}{line[1:]}." for line in _silence(view)]
    paragraphs = [
        f"{whole}.",
        *silent,
        *_losses(view),
        *(_paragraph(view, stage, cut_off) for stage in unfinished[:_MOST_STAGES]),
    ]
    if len(unfinished) > _MOST_STAGES:
        paragraphs.append(f"… and {len(unfinished) - _MOST_STAGES} more stages; ask for one of them by its name.")
    return "\n\n".join(paragraphs)


def explain_stage(view: RunView, stage: str, *, status: str | None = None) -> str:
    """One paragraph; raises CenoteError for a stage that the run does not have."""
    found = next((one for one in view.stages if one.id == stage), None)
    if found is None:
        names = [one.id for one in view.stages]
        raise errors.error(
            errors.USAGE,
            f"this run has no stage '{stage}'",
            details=[f"its stages: {listed(names)}"],
            hint=did_you_mean(stage, names),
        )
    return _paragraph(view, found, status == "interrupted")


def waiting_in_words(view: RunView) -> list[str]:
    """A line for every worker that does not answer, and every stage that has waited for one for more than a moment."""
    if view.finished or view.started is None or view.saved is not None:
        return []
    pools = {pool.name: pool for pool in view.pools}
    planned = {pool.name: pool for pool in view.plan.pools}
    lines = list(_silence(view))
    for stage in _one_of_each_segment(view):
        if stage.segment is None or stage.running or stage.done + stage.failed >= stage.tasks:
            continue
        segment = view.plan.segments[stage.segment]
        mine = [pools[name] for name in segment.pools if name in pools]
        waited = min((_empty_for(pool, view) for pool in mine), default=0.0)
        if waited >= A_MOMENT and all(needed.done for needed in _needed(view, segment)):
            words = "; ".join(_workers(pool, planned[pool.name]) for pool in mine[:1])
            lines.append(f"{stage.id} waits for pool '{mine[0].name}': {words}, for {format_seconds(waited)}")
    return lines


def _one_of_each_segment(view: RunView) -> list[StageRecord]:
    """Stages of one segment wait together: the first of the file speaks for all."""
    first: dict[int, StageRecord] = {}
    for stage in sorted(view.stages, key=lambda one: bool(one.variation)):
        if stage.segment is not None:
            first.setdefault(stage.segment, stage)
    return list(first.values())


def _losses(view: RunView) -> Iterator[str]:
    """Of workers that went by themselves: somebody else may want to know what became of them."""
    losses = [
        f"Pool '{pool.name}' lost {plural(pool.workers_lost, 'worker')}; the last: {pool.last_loss}."
        for pool in view.pools
        if pool.workers_lost
    ]
    if losses:
        yield " ".join(losses)


def _silence(view: RunView) -> Iterator[str]:
    """Of workers that do not answer."""
    for pool in view.pools:
        for worker, since in pool.silent.items():
            yield f"worker {worker} has not answered for {format_seconds(seconds_from(since, view.clock))}"


def _paragraph(view: RunView, stage: StageRecord, cut_off: bool) -> str:
    if stage.segment is None:
        return f"Stage '{stage.id}' does not run: no product needs it."
    segment = view.plan.segments[stage.segment]
    rows = stages_for_people([one for one in view.stages if one.segment == segment.index])
    others = [words for words, one in rows if one.id != stage.id]
    sentences = [_progress(stage, others, cut_off), *_why_again(view, stage)]
    if stage.done < stage.tasks:
        sentences += _data(view, segment)
        if not view.finished and not cut_off:
            sentences += _pool_sentences(view, segment)
    sentences += _moves(view, segment)
    sentences += _failures(view, segment)
    for reason, count in view.abandoned(stage.segment).items():
        sentences.append(f"{plural(count, 'task')} {'was' if count == 1 else 'were'} abandoned: {reason}.")
    return " ".join(sentences)


def _progress(stage: StageRecord, others: Sequence[str], cut_off: bool) -> str:
    together = f" (with {listed(others)}, in the same tasks)" if others else ""
    running = 0 if cut_off else stage.running
    waiting = stage.tasks - stage.done - running - stage.failed - stage.not_run
    parts = [f"{stage.done} of {stage.tasks} tasks done"]
    parts += [f"{running} running"] if running else []
    parts += [f"{waiting} waiting"] if waiting else []
    parts += [f"{stage.failed} failed"] if stage.failed else []
    parts += [f"{stage.not_run} not run"] if stage.not_run else []
    return f"Stage '{stage.id}'{together}: {', '.join(parts)}."


def _why_again(view: RunView, stage: StageRecord) -> Iterator[str]:
    for row in view.why:
        if row.stage == stage.id and row.causes:
            yield f"It ran again ({tasks_in_words(row)}): {'; '.join(row.causes)}."


def _data(view: RunView, segment: PlannedSegment) -> Iterator[str]:
    """What its events depend on."""
    for needed in _needed(view, segment):
        if needed.done < needed.tasks:
            yield f"Its events come from '{needed.id}', which has {needed.done} of {needed.tasks} tasks done."


def _needed(view: RunView, segment: PlannedSegment) -> list[StageRecord]:
    return [stage for stage in view.stages if stage.id in segment.imports]


def _pool_sentences(view: RunView, segment: PlannedSegment) -> Iterator[str]:
    planned = {pool.name: pool for pool in view.plan.pools}
    pools = {pool.name: pool for pool in view.pools}
    for name in _pools_in_use(view, segment):
        pool = pools[name]
        yield f"Pool '{name}' has {_workers(pool, planned[name])}."
        if pool.held:
            yield f"Its tasks wait: {pool.held}."
        if pool.states and pool.states[-1].reason:
            since = format_seconds(seconds_from(pool.states[-1].at, view.clock))
            meaning = f" ({words})" if (words := pool_word(pool.state).meaning) else ""
            yield f"For {since} its state has been {pool.state}{meaning}: {pool.states[-1].reason}."
        elif pool.last_word and not pool.workers:
            yield f"Latest report on its workers: {pool.last_word}."
        if pool.last_lines and not pool.workers:
            yield f"The last of its workers wrote: {' / '.join(pool.last_lines.splitlines()[-_LINES_SHOWN:])}."
        if (probe := view.probes.get(name)) is not None and not pool.workers:
            said = in_a_sentence(name, probe, now=view.clock)
            yield f"{said[0].upper()}{said[1:]}."
        if name in segment.pools:
            yield from _timers(view, segment, planned[name], pool)


def _pools_in_use(view: RunView, segment: PlannedSegment) -> list[str]:
    """Where its tasks wait or run: where they began, and where they moved."""
    known = {pool.name for pool in view.plan.pools}
    first = segment.pools if segment.shared else segment.pools[:1]
    moved = [move.to_pool for move in view.fallbacks if move.stage in segment.stages]
    return [name for name in dict.fromkeys((*first, *moved)) if name in known]


def _workers(pool: PoolRecord, planned: PlannedPool) -> str:
    """`2 of 4 workers, 2 more asked for (Priority)`."""
    size = f"up to {planned.most_workers}" if planned.is_elastic else f"{planned.most_workers}"
    words = f"{pool.workers} of {size} workers"
    if pool.awaited:
        words += f", {pool.awaited} requested and not joined yet"
    if pool.last_word and not pool.workers:
        words += f" ({pool.last_word})"
    if pool.workers:
        words += f", {pool.running} of {pool.workers * pool.slots} slots busy"
    return words


def _timers(view: RunView, segment: PlannedSegment, planned: PlannedPool, pool: PoolRecord) -> Iterator[str]:
    """When waiting tasks will move on, or fail."""
    if pool.workers or not pool.states:
        return
    own = () if segment.shared else segment.pools[segment.pools.index(planned.name) + 1 :]
    following = [CandidatePools((name,)) for name in own]
    following += [CandidatePools((name,), own=False) for name in planned.fallback]
    seconds, setting = time_to_leave(planned, following, view.plan.limits)
    if seconds == math.inf:
        yield "Tasks wait indefinitely: the pool has no `queue_timeout` and no fallback."
        return
    what = f"move to '{following[0].pools[0]}'" if following else "fail"
    rule = f"{setting}: {format_seconds(seconds)}"
    left = seconds - _empty_for(pool, view)
    when = f"in {format_seconds(left)}" if left > 0 else "now"
    yield f"Tasks that wait {what} {when} ({rule})."


def _empty_for(pool: PoolRecord, view: RunView) -> float:
    return 0.0 if pool.empty_since is None else seconds_from(pool.empty_since, view.clock)


def _moves(view: RunView, segment: PlannedSegment) -> Iterator[str]:
    for move in [move for move in view.fallbacks if move.stage in segment.stages][-3:]:
        what = f"Task {move.task}" if move.task is not None else f"{move.tasks} tasks"
        yield f"{what} moved from '{move.from_pool}' to '{move.to_pool}': {move.reason}."


def _failures(view: RunView, segment: PlannedSegment) -> Iterator[str]:
    mine = [failure for failure in view.failures if failure.stage in segment.stages]
    if mine:
        first_line = mine[0].message.partition("\n")[0]
        yield f"Task {mine[0].task} failed in '{mine[0].pool}': {first_line}."
        yield "What its worker wrote is in `debug/distributed` of the run's folder."
