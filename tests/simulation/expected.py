"""State what a run must leave, straight from the plan and what is spoiled: no schedule, no engine."""

from __future__ import annotations

from dataclasses import dataclass

from builders.plans import tasks_in
from cenote.engine.task_classes import EngineOptions
from cenote.planning.plan import MERGE, Plan
from simulation.scenario import Scenario

Value = tuple[int, ...]
"""A simulated result: the run tasks whose numbers are in it, in the order they were merged."""


@dataclass(frozen=True)
class Expected:
    """What is there at the end, whatever happened on the way."""

    values: dict[int, Value]
    """Every task that can succeed under keep-going."""
    partial: frozenset[int]
    """Of those, the merges without some of their parts."""
    results: frozenset[int]
    """The tasks for whose sake the run is."""
    status: str
    """When nobody cancels."""


def expected_of(scenario: Scenario) -> Expected:
    """Task by task, in the order of the table."""
    values: dict[int, Value] = {}
    partial: set[int] = set()
    for task in tasks_in(scenario.plan.tasks):
        there = [need for need in task.needs if need in values]
        whole = len(there) == len(task.needs) and not partial & set(there)
        if task.number in scenario.spoiled or (task.kind == "run" and not whole) or (task.needs and not there):
            continue
        values[task.number] = merged([values[need] for need in there]) if task.kind == "merge" else (task.number,)
        if not whole:
            partial.add(task.number)
    results = results_of(scenario.plan)
    return Expected(values, frozenset(partial), results, _status(scenario.options, scenario.spoiled, results, values))


def results_of(plan: Plan) -> frozenset[int]:
    """Tasks that hold a product, and those that nobody uses."""
    unused = {task.number for task in tasks_in(plan.tasks) if not plan.tasks.users_of(task.number)}
    return frozenset(unused | {product.task for product in plan.products})


def merged(parts: list[Value]) -> Value:
    """One after the other: so a part that is there twice, or out of order, shows."""
    return tuple(number for part in parts for number in part)


def is_merge(plan: Plan, task: int) -> bool:
    """Whether it merges."""
    return bool(plan.tasks.kind[task] == MERGE)


def _status(options: EngineOptions, spoiled: frozenset[int], results: frozenset[int], values: dict[int, Value]) -> str:
    if not spoiled:
        return "succeeded"
    return "partial" if options.keep_going and results & values.keys() else "failed"
