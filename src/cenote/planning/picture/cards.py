"""Turn a plan into cards and links: what a picture of it shows, before anybody knows where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal

from cenote.common.text import format_pools, plural, with_variations
from cenote.common.units import format_count
from cenote.common.values import dataclass
from cenote.planning.plan import Plan, Segment, Step

MOST_CARDS = 60
"""Above it, every segment becomes one card: a picture is for the shape, the table and `--json` for the rest."""
MOST_SEGMENTS = 24
MOST_ROWS = 12

DATA = -1
"""The segment number of the card that stands for the input."""


@dataclass(frozen=True)
class CardRow:
    """One line of a card: a stage, or how many were left out."""

    title: str
    detail: str = ""
    product: str | None = None


@dataclass(frozen=True)
class Card:
    """Stages that a picture shows together: a chain, or alike ends of the same branch."""

    id: str
    segment: int
    rows: tuple[CardRow, ...]
    kind: Literal["chain", "alike", "data"] = "chain"


@dataclass(frozen=True)
class Link:
    """Events (or a product) that go from one card to another."""

    source: str
    target: str
    columns: tuple[str, ...] = ()
    """What crosses; empty within a segment."""
    product: bool = False


@dataclass(frozen=True)
class Frame:
    """A segment: the box around its cards."""

    segment: int
    pools: tuple[str, ...]
    title: str
    detail: str


@dataclass(frozen=True)
class Sketch:
    """Everything a picture shows."""

    frames: tuple[Frame, ...]
    cards: tuple[Card, ...]
    links: tuple[Link, ...]
    left_out: int = 0
    """Segments that are not shown."""


@dataclass
class _Groups:
    """Which stages share a card, while that is being decided."""

    varied: Mapping[str, str]
    """Stage that stands for variations → what it is called then."""
    card_of: dict[str, str] = field(default_factory=dict)
    cards: list[Card] = field(default_factory=list)

    def add(self, segment: int, steps: Sequence[Step], kind: Literal["chain", "alike"]) -> None:
        name = steps[0].stage
        self.card_of.update({step.stage: name for step in steps})
        self.cards.append(Card(name, segment, _rows(steps, self.varied), kind))


def sketch(plan: Plan) -> Sketch:
    """The cards and links of a plan; of a very large one the beginning, each segment as one card."""
    segments, varied = _without_variations(plan.segments)
    shown = segments[:MOST_SEGMENTS]
    groups = _Groups(varied)
    for segment in shown:
        for steps, kind in _grouped(segment, segments):
            groups.add(segment.index, steps, kind)
    if len(groups.cards) > MOST_CARDS:
        groups = _Groups(varied)
        for segment in shown:
            groups.add(segment.index, segment.steps, "alike")
    data = _data_card(plan)
    return Sketch(
        frames=tuple(_frame(plan, segment) for segment in shown),
        cards=(data, *groups.cards),
        links=tuple(_links(shown, groups.card_of, data)),
        left_out=len(plan.segments) - len(shown),
    )


def _without_variations(segments: Sequence[Segment]) -> tuple[list[Segment], dict[str, str]]:
    """The segments with one step for a stage and all variations of it there; and what those steps are called."""
    groups: dict[tuple[int, str], list[Step]] = {}
    for segment in segments:
        for step in segment.steps:
            groups.setdefault((segment.index, step.varied.stage if step.varied else step.stage), []).append(step)
    stands_for: dict[str, str] = {}
    named: dict[str, str] = {}
    for (_, name), steps in groups.items():
        first = next((step for step in steps if step.varied is None), steps[0])
        stands_for.update({step.stage: first.stage for step in steps})
        named[first.stage] = with_variations(name, len({step.varied.variation for step in steps if step.varied}))
    inputs: dict[str, dict[str, None]] = {name: {} for name in named}
    for step in (step for segment in segments for step in segment.steps):
        own = stands_for[step.stage]
        inputs[own].update((name, None) for one in step.inputs if (name := stands_for.get(one, one)) != own)
    return [
        replace(
            segment,
            steps=tuple(replace(s, inputs=tuple(inputs[s.stage])) for s in segment.steps if s.stage in named),
        )
        for segment in segments
    ], named


def _data_card(plan: Plan) -> Card:
    datasets = [dataset.own_name for dataset in plan.datasets]
    named = datasets if len(datasets) <= 5 else [*datasets[:4], f"… {len(datasets) - 4} more"]
    rows = [CardRow(f"{format_count(plan.events)} events", plural(len(plan.partitions), "partition"))]
    return Card("|data", DATA, (*rows, *(CardRow(name) for name in named)), "data")


def _frame(plan: Plan, segment: Segment) -> Frame:
    tasks = len(plan.layout.runs[segment.index]) if segment.index < len(plan.layout.runs) else 0
    each = {"partition": "a task per partition", "dataset": "a task per dataset", "run": "all data at once"}
    counted = f" · {plural(tasks, 'task')}" if tasks else ""
    title = format_pools(segment.pools, shared=segment.shared)
    return Frame(segment.index, segment.pools, title, each[segment.scope] + counted)


def _grouped(segment: Segment, segments: Sequence[Segment]) -> list[tuple[list[Step], Literal["chain", "alike"]]]:
    """Chains become one card each, and so do the single ends that hang on the same stages."""
    own = {step.stage for step in segment.steps}
    readers: dict[str, list[str]] = {}
    for step in (step for other in segments for step in other.steps):
        for name in step.inputs:
            readers.setdefault(name, []).append(step.stage)
    chain_of: dict[str, list[Step]] = {}
    for step in segment.steps:
        before = step.inputs[0] if len(step.inputs) == 1 else None
        inside = [name for name in readers.get(before, []) if name in own] if before in own and before else []
        if before is not None and inside == [step.stage]:
            chain_of[step.stage] = chain_of[before]
            chain_of[before].append(step)
        else:
            chain_of[step.stage] = [step]
    chains = list({id(chain): chain for chain in chain_of.values()}.values())
    ends: dict[tuple[str, ...], list[Step]] = {}
    for chain in chains:
        if len(chain) == 1 and chain[0].stage not in readers and chain[0].inputs:
            ends.setdefault(chain[0].inputs, []).append(chain[0])
    alike = {key: steps for key, steps in ends.items() if len(steps) > 1}
    taken = {step.stage for steps in alike.values() for step in steps}
    found: list[tuple[list[Step], Literal["chain", "alike"]]] = []
    found += [(chain, "chain") for chain in chains if chain[0].stage not in taken]
    found += [(steps, "alike") for steps in alike.values()]
    return found


def _rows(steps: Sequence[Step], varied: Mapping[str, str]) -> tuple[CardRow, ...]:
    rows = [
        CardRow(varied.get(step.stage, step.stage), step.op, step.product or ("files" if step.writes else None))
        for step in steps
    ]
    if len(rows) <= MOST_ROWS:
        return tuple(rows)
    head, tail = rows[: MOST_ROWS // 2], rows[len(rows) - MOST_ROWS // 2 + 1 :]
    return (*head, CardRow(f"… {len(rows) - len(head) - len(tail)} more"), *tail)


def _links(segments: Iterable[Segment], card_of: Mapping[str, str], data: Card) -> list[Link]:
    """One link between two cards, whatever number of stages it joins."""
    segment_of = {stage: segment for segment in segments for stage in segment.stages}
    found: dict[tuple[str, str, bool], dict[str, None]] = {}
    for stage, segment in segment_of.items():
        step = next(step for step in segment.steps if step.stage == stage)
        target = card_of[stage]
        if not step.inputs and segment.source is not None:
            read = (name for names in segment.source.columns.values() for name in names)
            found.setdefault((data.id, target, False), {}).update(dict.fromkeys(read))
        for name in step.inputs:
            if name in segment_of and card_of[name] != target:
                crossing = segment_of[name].exports.get(name, ()) if segment_of[name] is not segment else ()
                found.setdefault((card_of[name], target, False), {}).update(dict.fromkeys(crossing))
        for name in step.needs_products:
            if name in segment_of and name not in step.inputs and card_of[name] != target:
                found.setdefault((card_of[name], target, True), {})
    return [Link(source, target, tuple(columns), product) for (source, target, product), columns in found.items()]
