"""Choose a part of a workflow: up to a stage, for a stage alone, or from a stage on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from cenote import errors
from cenote.errors import CenoteError
from cenote.language.workflow import Stage, Workflow


def select(workflow: Workflow, *, until: Sequence[str] = (), only: Sequence[str] = ()) -> Workflow:
    """The same workflow with fewer stages: with `until` those named and all that they need, with `only` the same, and
    of what they need nothing is written, drawn or published. Raises with the nearest names for unknown ones."""
    if until and only:
        raise errors.error(errors.USAGE, "--until and --only choose different parts of the workflow: choose one")
    if not (until or only):
        return workflow
    refuse_unknown((*until, *only), workflow)
    kept = _reached((*until, *only), {stage.id: stage.needs for stage in workflow.stages})
    helpers = kept - set(only) if only else frozenset()
    return replace(
        workflow,
        stages=tuple(
            replace(stage, write=(), render=()) if stage.id in helpers else _drawable(stage, kept - helpers)
            for stage in workflow.stages
            if stage.id in kept
        ),
        helpers=helpers,
        left_out=frozenset(stage.id for stage in workflow.stages) - kept,
    )


def _drawable(stage: Stage, kept: Collection[str]) -> Stage:
    """Without pictures of several products of which some are left out."""
    return replace(stage, render=tuple(one for one in stage.render if {*one.together.values()} <= {*kept}))


def refuse_unknown(names: Iterable[str], workflow: Workflow) -> None:
    """Raise for names that are no stage's."""
    known = [stage.id for stage in workflow.stages]
    problems = []
    for name in dict.fromkeys(names):
        if name not in known:
            left_out = name in workflow.left_out
            words = f"stage '{name}' is not part of this run" if left_out else f"there is no stage '{name}'"
            problems.append(errors.unknown_name(errors.UNKNOWN_STAGE, words, name, known, what="stages"))
    if problems:
        raise CenoteError(problems)


def followers_of(workflow: Workflow, stages: Collection[str]) -> frozenset[str]:
    """These stages, and all that follow them."""
    followers: dict[str, list[str]] = {stage.id: [] for stage in workflow.stages}
    for stage in workflow.stages:
        for need in stage.needs:
            followers[need].append(stage.id)
    return _reached(stages, followers)


def _reached(first: Iterable[str], ways: Mapping[str, Sequence[str]]) -> frozenset[str]:
    found: set[str] = set()
    waiting = list(first)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += ways.get(name, ())
    return frozenset(found)
