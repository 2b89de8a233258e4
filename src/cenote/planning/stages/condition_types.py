"""Find conditions that are lists or numbers, or cannot be computed at all, before anything runs: the ordinary evaluator
tries them on one event with the types of the files. What it cannot tell is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field

import numpy as np

from cenote.analysis.expressions.arrays import dimensions, leaf_type
from cenote.analysis.expressions.parser import expression
from cenote.analysis.expressions.problems import UnfitTypesError
from cenote.analysis.operations.support.evaluation import Unfit, evaluate, no_condition
from cenote.analysis.operations.support.events import Column, DatasetInfo, Events
from cenote.analysis.sources.interface import FileInfo, find_column
from cenote.common import errors
from cenote.common.errors import Problem
from cenote.common.text import column_name
from cenote.common.values import dataclass
from cenote.language.plugins import own_functions
from cenote.language.workflow import Workflow
from cenote.planning.inputs.look import Inputs
from cenote.planning.inputs.metadata_cache import one_of_each_schema
from cenote.planning.stages.depends_on import texts_in
from cenote.planning.stages.resolve import SOURCE, Resolved, ResolvedStage, SchemaGroup, dataset_infos

# Make up one event of a column from what the metadata of a file says of its type.


_NUMBERS = {
    "bool": "b1", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "int64": "i8", "uint64": "u8", "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
    "char": "i1", "short": "i2", "int": "i4", "long": "i8", "string": "U1", "large_string": "U1",
}  # fmt: skip
"""How C++, Arrow, numpy and awkward call types → numpy's name."""
_LISTS = (
    re.compile(r"(.+)\[\d*\]"),
    re.compile(r"(?:std::)?vector<(.+)>"),
    re.compile(r"(?:large_|fixed_size_)?list<\w+: (.+?)(?: not null)?>(?:\[\d+\])?"),
    re.compile(r"(?:var|\d+) \* (.+)"),
)
"""How they write a list of what is within."""


def sample_column(type_name: str) -> Column | None:
    """One event of a column of this type, with lists of one element; None where the type is not known for sure."""
    depth, inner = 1, type_name
    while found := next(filter(None, (pattern.fullmatch(inner) for pattern in _LISTS)), None):
        depth, inner = depth + 1, found[1].strip()
    number = _NUMBERS.get(inner.removeprefix("?").removeprefix("std::").removesuffix("_t"))
    return None if number is None else np.ones((1,) * depth, number)


def no_conditions(workflow: Workflow, resolved: Resolved, inputs: Inputs) -> list[Problem]:
    """What stages take for one true or false per event, and is not: each once."""
    found: dict[tuple[str, str], Problem] = {}
    infos = {info.own_name: info for info in dataset_infos(workflow)}
    for number, flavour in enumerate(resolved.flavours):
        dataset = infos.get(flavour.datasets[0], DatasetInfo(flavour.datasets[0]))
        for problem in _Trial(workflow, resolved, inputs, number, dataset).run():
            found.setdefault((str(problem.place), problem.message), problem)
    return list(found.values())


@dataclass
class _Trial:
    """The walk over the stages of one flavour."""

    workflow: Workflow
    resolved: Resolved
    inputs: Inputs
    number: int
    dataset: DatasetInfo
    added: dict[str, Mapping[str, Column]] = field(default_factory=dict)
    """Stage → samples of the columns that it adds, as far as they are known."""
    schemas: dict[str, list[FileInfo]] = field(default_factory=dict)
    """Source → one file of each kind."""

    @property
    def flavour(self) -> SchemaGroup:
        return self.resolved.flavours[self.number]

    def run(self) -> Iterator[Problem]:
        wanted = self._wanted()
        for stage in self.resolved.stages:
            if stage.id in wanted and not own_functions.code_used_in(stage.stage.params):
                events = self._events(stage)
                yield from self._no_conditions(stage, events)
                self.added[stage.id] = self._added(stage, events)

    def _wanted(self) -> set[str]:
        """The stages that have conditions, and those that define what these read."""
        wanted: set[str] = set()
        for stage in reversed(self.resolved.stages):
            applied = stage.applied.get(self.number)
            if applied is None or stage.stage.varied is not None:
                continue
            if stage.id in wanted or applied.operation.conditions():
                wanted.add(stage.id)
                wanted.update(definer for name in applied.reads if (definer := self._definer(stage, name)))
        return wanted

    def _definer(self, stage: ResolvedStage, name: str) -> str | None:
        """The stage whose column it reads, or `SOURCE`; None where there are several, or nothing is known."""
        before = [self.resolved.available.get((self.number, need)) for need in stage.inputs]
        found = {None if columns is None else columns.get(name) for columns in before} or {SOURCE}
        return found.pop() if len(found) == 1 else None

    def _events(self, stage: ResolvedStage) -> Events:
        """One event with the columns that it reads, as far as they are known."""
        columns: dict[str, Column] = {}
        for name in stage.applied[self.number].reads:
            definer = self._definer(stage, name)
            known = (
                self._in_files(stage.root, name) if definer == SOURCE else self.added.get(definer or "", {}).get(name)
            )
            if known is not None:
                columns[name] = known
        names = tuple(dataset.name for dataset in self.workflow.datasets)
        return Events(columns, 1, self.dataset, names, self.workflow.constants)

    def _in_files(self, source: str, name: str) -> Column | None:
        """A sample of a column of the files; None where they do not agree."""
        branch = next((one.branch for one in self.workflow.fields if one.alias == name), name)
        if source not in self.schemas:
            files = [info for one in self.flavour.datasets for info in self.inputs.infos.get((one, source), ())]
            self.schemas[source] = one_of_each_schema(files)
        found = [(info.columns, find_column(branch, info.columns)) for info in self.schemas[source]]
        types = {columns[known].type for columns, known in found if known is not None}
        return sample_column(types.pop()) if len(types) == 1 else None

    def _no_conditions(self, stage: ResolvedStage, events: Events) -> Iterator[Problem]:
        columns = stage.applied[self.number].reads
        for text in stage.applied[self.number].operation.conditions():
            names = {column_name(name, columns) for name in expression(text).names}
            if any(name in columns and name not in events for name in names):
                continue
            unfit = _unfit(text, events)
            if unfit is not None:
                message = f"stage '{stage.id}': {unfit.what}"
                params = (*stage.stage.path, "params")
                path = next((path for path, said in texts_in(stage.stage.params, params) if text in said), params)
                yield Problem(errors.BAD_EXPRESSION, message, place=self.workflow.place(*path), hint=unfit.instead)

    def _added(self, stage: ResolvedStage, events: Events) -> dict[str, Column]:
        """Samples of what it adds, again of one event."""
        applied = stage.applied[self.number]
        found: Mapping[str, Column] = {}
        with suppress(Exception):  # as above
            found = applied.operation.typed(events)
        types = {name: (dimensions(column), leaf_type(column)) for name, column in found.items()}
        return {name: np.ones((1,) * depth, dtype) for name, (depth, dtype) in types.items() if dtype is not None}


def _unfit(text: str, events: Events) -> Unfit | None:
    """Why it is not a condition; None where it is, or nothing tells."""
    try:
        return no_condition(evaluate(text, events), text)
    except UnfitTypesError as problem:
        return Unfit(str(problem))
    except Exception:  # made-up values prove nothing
        return None
