"""Name results by what can change their bits: equal identities mean equal results, so that work is found again.

Of a stage that is what it does, the events that reach it, and the columns that it reads, each by how it came to be.
Other stages, other datasets and what is only shown are no part of it. Pools and limits are not, nor which stages are
compiled: both ways give the same bits.
"""

from __future__ import annotations

import hashlib
import os.path
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, field
from typing import Any

from cenote import __version__
from cenote.analysis.expressions.functions import CONSTANTS
from cenote.analysis.modifiers.interface import Effect
from cenote.analysis.operations.interface import Operation
from cenote.analysis.operations.support.events import DatasetInfo
from cenote.common.software import installed_versions
from cenote.common.text import column_name
from cenote.common.values import dataclass
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.own_functions import code_used_in
from cenote.language.plugins.registry import code_digest
from cenote.language.workflow import SourceUse, Workflow
from cenote.planning.fingerprint import digest_of
from cenote.planning.plan import MadeOf, ScopeName, Segment, Step, columns_of, end_of, skims_of
from cenote.planning.stages.columns import ColumnFlow, versions_of
from cenote.planning.stages.resolve import SOURCE, Applied, Resolved, ResolvedStage

SOFTWARE = ("numpy", "awkward", "boost-histogram", "hist")
"""Packages that nearly all results are computed with, besides Cenote: another version may give other last bits."""
_SIZE = 16
_WHOLE = ""
"""For the whole of an operation; a column may not be called so."""


def combined(word: str, parts: Iterable[bytes]) -> bytes:
    """An identity out of others, which are all of the same length."""
    return hashlib.blake2b(word.encode() + b"\0" + b"".join(parts), digest_size=_SIZE).digest()


@dataclass(frozen=True)
class Lineage:
    """What can change the results of a segment for one dataset, apart from the data of a partition."""

    products: Mapping[str, bytes]
    """Product → what it is made of."""
    leaving: Mapping[str, bytes]
    """Stage whose events leave the segment → what these are made of."""
    uses: Mapping[str, frozenset[str]]
    """Product, or stage whose events leave → stages of a whole dataset or run whose products reach it."""


def lineages(
    workflow: Workflow,
    segments: Sequence[Segment],
    resolved: Resolved,
    flow: ColumnFlow,
    datasets: Sequence[DatasetInfo],
) -> tuple[dict[tuple[int, str], Lineage], dict[str, MadeOf]]:
    """(segment, dataset) → its lineage; and for each stage what that is made of."""
    shared = _Shared.of(workflow, segments, resolved, flow, datasets)
    known = {info.own_name: info for info in datasets}
    found: dict[tuple[int, str], Lineage] = {}
    for number, flavour in enumerate(resolved.flavours):
        for name in flavour.datasets:
            walk = _Walk(shared, number, known[name])
            for segment in segments:
                found[segment.index, name] = walk.through(segment)
    return found, {name: shared.made_of(name) for name in shared.lineage}


def segment_digest(segment: Segment, found: Mapping[tuple[int, str], Lineage]) -> str:
    """Of everything that decides the results of a segment, except the data."""
    mine = {name: one for (number, name), one in found.items() if number == segment.index}
    parts = (
        part for name in sorted(mine) for made in (mine[name].products, mine[name].leaving) for part in made.values()
    )
    return combined("segment", parts).hex()


def code_of(step: Step, stage: ResolvedStage, workflow: Workflow) -> list[list[str]]:
    """What a step does to events, apart from its settings: the code of all plugins that take part, and files."""
    matter = [one for one in step.modifiers if one.effect != Effect.OBSERVES.value]
    return [
        ["operation", stage.operation.fingerprint, code_digest(PluginKind.OPERATION, step.op)],
        ["product", code_digest(PluginKind.PRODUCT, step.product or "")],
        *code_used_in((step.params, step.own_params, step.varied, step.fillings)),
        *(["software", name, version] for name, version in versions_of(stage.operation)),
        *(["modifier", m.name, digest_of(m.params), code_digest(PluginKind.MODIFIER, m.name)] for m in matter),
        *(["file", os.path.relpath(file.path, workflow.folder), file.digest] for file in stage.files),
    ]


def _written(step: Step) -> list[list[str]]:
    """What a step writes, and the code that does so."""
    writes = [[[*astuple(one)], code_digest(PluginKind.SINK, one.kind)] for one in step.writes]
    return [["write", digest_of(writes)]] if writes else []


@dataclass
class _Shared:
    """What all datasets have in common."""

    workflow: Workflow
    resolved: Resolved
    flow: ColumnFlow
    names: tuple[str, ...]
    """Of all datasets, without those that stand in for others."""
    stages: Mapping[str, ResolvedStage]
    steps: Mapping[str, Step]
    code: Mapping[str, Any]
    """Stage → what it does, apart from its settings."""
    software: bytes
    own: dict[tuple[int, str, str | None], bytes] = field(default_factory=dict)
    """(flavour, stage, part of it) → what it is told to do, and its code."""
    lineage: dict[str, dict[str, str]] = field(default_factory=dict)
    sees: dict[str, dict[str, Any]] = field(default_factory=dict)
    needs: dict[str, dict[str, None]] = field(default_factory=dict)
    sources: dict[tuple[str, str], bytes] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        workflow: Workflow,
        segments: Sequence[Segment],
        resolved: Resolved,
        flow: ColumnFlow,
        datasets: Sequence[DatasetInfo],
    ) -> _Shared:
        stages = {stage.id: stage for stage in resolved.stages}
        steps = {step.stage: step for segment in segments for step in segment.steps}
        return cls(
            workflow=workflow,
            resolved=resolved,
            flow=flow,
            names=tuple(info.own_name for info in datasets if not info.stands_in),
            stages=stages,
            steps=steps,
            code={name: code_of(step, stages[name], workflow) for name, step in steps.items()},
            software=bytes.fromhex(digest_of([__version__, installed_versions(SOFTWARE)])),
        )

    def made_of(self, name: str) -> MadeOf:
        """Of a stage, once all datasets have been gone through."""
        stage, step = self.stages[name], self.steps[name]
        settings = next(iter(stage.applied.values())).operation.identity()
        code = tuple(tuple(map(str, row)) for row in (*self.code[name], *_written(step)))
        return MadeOf(step.op, settings, code, self.sees[name], tuple(self.needs[name]), stage.root, self.lineage[name])

    def note(self, step: Step, dataset: str, *, sees: Any, needs: Iterable[str], does: bytes) -> None:
        """What the results of a stage for a dataset are made of, files included."""
        lineage = combined(digest_of(_written(step)), [does]) if step.writes else does
        self.sees.setdefault(step.stage, {})[dataset] = sees
        self.needs.setdefault(step.stage, {}).update(dict.fromkeys(needs))
        self.lineage.setdefault(step.stage, {})[dataset] = lineage.hex()

    def own_of(self, number: int, step: Step, part: str | None, operation: Operation) -> bytes:
        """What a step is told to do, and its code; `part` tells apart what only leads to a column, or to nothing but
        which events are there (None)."""
        key = (number, step.stage, part)
        if key not in self.own:
            self.own[key] = bytes.fromhex(digest_of([step.op, operation.identity(), self.code[step.stage]]))
        return self.own[key]

    def source(self, root: str, column: str = "") -> bytes:
        """A column as a source reads it; or its events."""
        key = (root, column)
        if key not in self.sources:
            use = next((one for one in self.workflow.sources if one.id == root), None)
            read = digest_of([self._reading(use), self._in_file(column)])
            self.sources[key] = combined("source", [self.software, bytes.fromhex(read)])
        return self.sources[key]

    def _reading(self, use: SourceUse | None) -> Any:
        return None if use is None else [use.kind, use.settings, code_digest(PluginKind.SOURCE, use.kind)]

    def _in_file(self, column: str) -> str:
        return next((field.branch for field in self.workflow.fields if field.alias == column), column)


class _Walk:
    """Goes through the stages for one dataset."""

    def __init__(self, shared: _Shared, number: int, info: DatasetInfo) -> None:
        self._shared, self._number, self._info = shared, number, info
        self._rows: dict[str, bytes] = {}
        """Stage → which events leave it."""
        self._defined: dict[tuple[str, str], bytes] = {}
        """(stage, column that it adds) → how it came to be."""
        self._uses: dict[str, frozenset[str]] = {}
        self._filters: dict[str, tuple[str, ...]] = {}
        """Stage → the stages that decide which events leave it."""

    def through(self, segment: Segment) -> Lineage:
        products: dict[str, list[bytes]] = {}
        uses: dict[str, frozenset[str]] = {}
        ends = segment.ends_for(self._info.own_name)
        taken = {one for inputs in segment.inputs_for(self._info.own_name).values() for one in inputs}
        for step in segment.steps:
            stage = self._shared.stages[step.stage]
            if self._number not in stage.applied:
                continue
            does = self._add(step, stage)
            made = {end_of(step.stage): does} if step.stage in ends else self._made(step, does, scope=segment.scope)
            if step.for_later is not None and (step.stage in taken or step.stage in segment.exports):
                found = [self._defined.get((step.stage, name), b"") for name in step.for_later]
                made[columns_of(step.stage)] = combined("columns", [self._rows[step.stage], *filter(None, found)])
            if segment.scope == "dataset":  # which the product is called after
                made = {name: combined(self._info.own_name, [part]) for name, part in made.items()}
            for name, part in made.items():
                products.setdefault(name, []).append(part)
                uses[name] = uses.get(name, frozenset()) | self._uses[step.stage]
        leaving = {
            stage: combined("events", [self._rows[stage], *self._after(stage, columns)])
            for stage, columns in segment.exports.items()
            if stage in self._rows
        }
        whole = {name: parts[0] if len(parts) == 1 else combined("sum", parts) for name, parts in products.items()}
        return Lineage(whole, leaving, uses | {stage: self._uses[stage] for stage in leaving})

    def _add(self, step: Step, stage: ResolvedStage) -> bytes:
        """Note what a step does to events and columns; what it makes is made of what this returns."""
        shared, name = self._shared, step.stage
        applied = stage.applied[self._number]
        operation = applied.operation
        inputs = shared.flow.inputs[self._number, name]
        rows = self._incoming(inputs, stage.root)
        changed = any(modifier.effect == Effect.CHANGES.value for modifier in step.modifiers)
        told = self._info.own_name if changed else ""  # of the dataset, in its call

        def made_of(part: str | None, doing: Operation, columns: Iterable[str]) -> bytes:
            sees = digest_of([doing.sees(self._info, shared.names, shared.workflow.constants), told])
            read = [self._column(inputs, stage.root, column) for column in columns]
            own = shared.own_of(self._number, step, part, doing)
            return combined("step", [own, bytes.fromhex(sees), rows, *read])

        does = made_of(_WHOLE, operation, applied.reads)
        copies = operation.copies()
        for column in applied.adds:
            doing = operation.part_for(column)
            reads = [*self._read_by(doing, applied), *([copies[column]] if column in copies else ())]
            self._defined[name, column] = combined(f"column {column}", [made_of(column, doing, reads)])
        keeps = operation.keeps_every_event() and not changed
        deciding = operation if changed else operation.part_for(None)
        self._rows[name] = (
            rows if keeps else combined("rows", [made_of(None, deciding, self._read_by(deciding, applied))])
        )
        before = (self._uses.get(one, frozenset()) for one in inputs)
        self._uses[name] = frozenset(step.needs_products).union(*before)
        filters = dict.fromkeys(one for before in inputs for one in self._filters.get(before, ()))
        self._filters[name] = tuple(filters) if keeps else (*filters, name)
        definers = [one for column in applied.reads for one in self._definers(inputs, column)]
        needs = dict.fromkeys([*filters, *definers, *step.needs_products])
        sees = operation.sees(self._info, shared.names, shared.workflow.constants)
        shared.note(step, self._info.own_name, sees=sees, needs=needs, does=does)
        return does

    def _read_by(self, part: Operation, applied: Applied) -> list[str]:
        """The columns that a part of an operation reads; all of them, where it names what is neither a column nor
        anything else that is known."""
        if part is applied.operation:
            return list(applied.reads)
        names = {column_name(name) for name in part.reads()}
        columns = [name for name in applied.reads if column_name(name) in names]
        others = {*CONSTANTS, *self._shared.workflow.constants, *part.facts()}
        unknown = names.difference(map(column_name, columns)).difference(others)
        return list(applied.reads) if unknown else columns

    def _definers(self, inputs: Sequence[str], column: str) -> Iterator[str]:
        """The stages that a column comes from."""
        for stage in inputs:
            there = None if stage == SOURCE else self._shared.resolved.available.get((self._number, stage))
            definer = None if there is None else there.get(column)
            if definer not in (None, SOURCE):
                yield str(definer)

    def _made(self, step: Step, does: bytes, *, scope: ScopeName) -> dict[str, bytes]:
        """What a step adds to the products of its task."""
        found: dict[str, bytes] = {}
        standing_in = bool(self._info.stands_in)
        nominal_only = standing_in and step.fillings is None and scope == "partition"
        if step.product is not None and not nominal_only:
            found[step.product_name] = does
        if step.writes and not standing_in:
            written = digest_of([self._info.own_name, _written(step)])
            columns = dict.fromkeys(column for one in step.writes for column in one.keep)
            parts = [bytes.fromhex(written), self._rows[step.stage], *self._after(step.stage, columns)]
            found[skims_of(step.stage)] = combined("files", parts)
        return found

    def _incoming(self, inputs: Sequence[str], root: str) -> bytes:
        """Which events come in: of several branches, those that all of them kept."""
        rows = [self._shared.source(root) if one == SOURCE else self._rows[one] for one in inputs]
        return rows[0] if len(rows) == 1 else combined("beside", rows)

    def _column(self, inputs: Sequence[str], root: str, column: str) -> bytes:
        """A column as it comes in; where branches hold several, all of them count."""
        found = dict.fromkeys(self._from(one, root, column) for one in inputs)
        return next(iter(found)) if len(found) == 1 else combined("joined", found)

    def _after(self, stage: str, columns: Iterable[str]) -> list[bytes]:
        root = self._shared.stages[stage].root
        return [self._from(stage, root, name) for name in columns]

    def _from(self, stage: str, root: str, column: str) -> bytes:
        """A column as it leaves a stage, or a source."""
        there = None if stage == SOURCE else self._shared.resolved.available.get((self._number, stage))
        definer = SOURCE if stage == SOURCE else there.get(column) if there is not None else None
        if definer == SOURCE:
            return self._shared.source(root, column)
        known = None if definer is None else self._defined.get((definer, column))
        return known or combined(f"{column} of {stage}", [])
