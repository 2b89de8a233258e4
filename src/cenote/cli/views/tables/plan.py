"""Lay out a plan for people: stages and why they run where, pools and who decided that, what comes out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from cenote.cli.views.origins import given_by_site, origins_of_pool
from cenote.cli.views.tables.fitted import FittedTable, TableColumn, name
from cenote.cli.views.tables.probe import VERDICT_STYLES
from cenote.common.text import (
    first_to_last,
    format_age,
    format_amounts,
    format_pools,
    join_words,
    listed,
    plural,
    with_variations,
)
from cenote.common.units import format_count
from cenote.language.plugins.registry import runs_here
from cenote.planning.placement.pools import PlacedPool, Verdict
from cenote.planning.plan import MERGE, Plan, StageSummary, columns_of, maker_of
from cenote.planning.probes.result import Probed
from cenote.planning.stages.variation_cost import cost_of_variations

_VERDICT_STYLES = {Verdict.YES: "green", Verdict.NOT_NOW: "yellow", Verdict.NEVER: "red"}
MOST_LINES = 5
"""Of groups of compiled stages, and of reasons why others are not."""
MOST_STAGES = 200
"""Rows of the table; a workflow of thousands of stages is for `--json`."""
_STAGE_COLUMNS = (
    TableColumn("stage"),
    TableColumn("operation", rank=4),
    TableColumn("pool", rank=1, wraps=True),
    TableColumn("why", rank=2, wraps=True),
    TableColumn("segment", rank=5, right=True),
    TableColumn("tasks", rank=3, right=True),
)
_MODIFIERS = TableColumn("modifiers", rank=3, wraps=True)
"""A column of a plan that has some."""
_POOL_COLUMNS = (
    TableColumn("pool"),
    TableColumn("strategy", rank=4),
    TableColumn("workers", rank=1),
    TableColumn("slots", rank=5, right=True),
    TableColumn("each worker", rank=2, wraps=True),
    TableColumn("set by", rank=3, wraps=True),
)


def show_plan(plan: Plan, console: Console) -> None:
    """Everything `cenote plan` prints, warnings apart."""
    console.print(stage_table(plan))
    stages = len(written_stages(plan))
    if stages > MOST_STAGES:
        console.print(f"… and {stages - MOST_STAGES} more stages: cenote plan --json lists them all")
    console.print()
    console.print(pool_table(plan))
    console.print()
    if (environments := environment_table(plan)) is not None:
        console.print(environments)
        console.print()
    if (probes := probe_table(plan, now=time.time())) is not None:
        console.print(probes)
        console.print()
    console.print(Group(*totals(plan)))


def written_stages(plan: Plan) -> list[StageSummary]:
    """The stages of the file, without those that variations add."""
    return [stage for stage in plan.stages if not stage.variation]


def stage_table(plan: Plan) -> FittedTable:
    """One row per stage of the file, which stands for its variations too."""
    added = Counter(of for of, _ in {(stage.variation_of, stage.variation) for stage in plan.stages})
    modified = any(stage.modifiers for stage in plan.stages)
    table = _table((*_STAGE_COLUMNS, _MODIFIERS) if modified else _STAGE_COLUMNS)
    placed = {placement.stage: placement for placement in plan.placement.stages}
    for stage in written_stages(plan)[:MOST_STAGES]:
        placement = placed.get(stage.stage)
        table.add_row(
            name(with_variations(stage.stage, added[stage.stage]), style="bold"),
            stage.op,
            Text(format_pools(placement.pools, shared=placement.shared), style=_VERDICT_STYLES[placement.verdict])
            if placement
            else "",
            _why(placement.verdict, placement.reason) if placement else "",
            "" if stage.segment is None else f"{stage.segment}",
            f"{stage.tasks:,}",
            *([", ".join(modifier.name for modifier in stage.modifiers)] if modified else ()),
        )
    return table


def _why(verdict: Verdict, reason: str) -> str:
    return reason if verdict is Verdict.YES else f"{verdict.value}: {reason}"


def pool_table(plan: Plan) -> FittedTable:
    """One row per pool, with who set what."""
    table = _table(_POOL_COLUMNS)
    for pool in plan.placement.pools:
        table.add_row(
            name(pool.name, style="bold"),
            pool.strategy,
            workers_in_words(pool),
            f"{pool.slots}",
            worker_in_words(pool),
            "\n".join(origins_of_pool(plan.workflow, pool.name)),
        )
    return table


def environment_table(plan: Plan) -> Table | None:
    """The software of workers, where it is not that of this command; None where it is."""
    execution = plan.workflow.execution
    here = runs_here(execution.backend)
    of_pools = {one.name: execution.environment_of("" if here else one.name) for one in plan.placement.pools}
    if all(one == {"type": "current"} for one in of_pools.values()):
        return None
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=len("environment"), style="bold")
    for number, (pool, written) in enumerate(of_pools.items()):
        settings = [f"{key}: {value}" for key, value in written.items() if key != "type" and isinstance(value, str)]
        words = f"{written['type']}{f' ({listed(settings)})' if settings else ''}"
        table.add_row("" if number else "environment", name(pool), Text(words))
    return table


def probe_table(plan: Plan, *, now: float) -> Table | None:
    """When pools were probed, and how that went; None where all workers are of this machine and nobody did."""
    names = [pool.name for pool in plan.placement.pools if not pool.starts_here or pool.name in plan.probes]
    if not names:
        return None
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=8, style="bold")
    if not plan.probes:
        table.add_row("probed", f"never: `cenote probe {plan.workflow.file.name}` tests what workers would find")
        return table
    for number, pool in enumerate(names):
        table.add_row("" if number else "probed", pool, _probe_in_words(plan.probes.get(pool), now))
    return table


def _probe_in_words(probe: Probed | None, now: float) -> Text:
    if probe is None:
        return Text("never")
    where = f" on {probe.host}" if probe.host else ""
    words = Text.assemble((probe.verdict, VERDICT_STYLES[probe.verdict]), f", {format_age(now - probe.at)}{where}")
    for finding in probe.troubles:
        words.append(f"\n{finding.question}: {finding.words}")
    return words


def workers_in_words(pool: PlacedPool) -> str:
    """`4`, or `0 to 20` for an elastic pool."""
    return f"{pool.elastic.min} to {pool.elastic.max}" if pool.elastic else f"{pool.workers or 0}"


def worker_in_words(pool: PlacedPool) -> str:
    """What one worker has, and what was asked for where it gets something else."""
    asked, granted = asdict(pool.resources), asdict(pool.granted)
    granted_words = format_amounts(pool.granted) or "anything"
    if all(amount in {None, granted[name]} for name, amount in asked.items()):
        return granted_words
    return f"{granted_words} (asked: {format_amounts(pool.resources)})"


def totals(plan: Plan) -> Iterator[RenderableType]:
    """How much there is to do, and what it leaves."""
    if site := given_by_site(plan.workflow):
        yield titled("site", site)
    merges = int((plan.tasks.kind == MERGE).sum())
    files = len({partition.url for partition in plan.partitions})
    yield titled(
        "data",
        f"{format_count(plan.events)} events in {plural(files, 'file')} of {plural(len(plan.datasets), 'dataset')}, "
        f"cut into {plural(len(plan.partitions), 'partition')}",
    )
    yield titled(
        "work",
        f"{plural(len(plan.tasks), 'task')} in {plural(len(plan.segments), 'segment')}"
        + (f", {merges:,} of them merges" if merges else ""),
    )
    yield from _compiled(plan)
    for position, words in enumerate(cost_of_variations(plan.workflow)):
        yield titled("" if position else "varied", words)
    kept = [stage for segment in plan.segments if segment.kept for stage in segment.exports]
    if kept:
        yield titled("kept", f"the events that leave {join_words(kept)}, for later runs")
    if dear := stages_kept_if_dear(plan):
        does = "they do" if len(dear) > 1 else "it does"
        words = f"{listed(dear)}: what {does} to events, if computing it again takes ten times as long as reading it"
        yield titled("" if kept else "kept", words)
    varied = {stage.stage: stage.variation_of for stage in plan.stages if stage.variation}
    added = Counter(varied[product.stage] for product in plan.products if product.stage in varied)
    for position, product in enumerate(one for one in plan.products if one.stage not in varied):
        pictures = ", ".join(render.out or render.name for render in product.renders)
        named = with_variations(product.name, added[product.name])
        drawn = f", drawn as {pictures}" if pictures else ""
        yield titled("" if position else "products", f"{named} ({product.kind}){drawn}")


def stages_kept_if_dear(plan: Plan) -> list[str]:
    """Stages of the file that later runs may do without, although what comes after them has changed."""
    written = {stage.stage: stage.variation_of or stage.stage for stage in plan.stages}
    kept = dict.fromkeys(maker_of(name) for names in plan.ids.names for name in names if name.endswith(columns_of("")))
    return list(dict.fromkeys(written[stage] for stage in kept))


def _compiled(plan: Plan) -> Iterator[RenderableType]:
    """Which stages become machine code together, and why others do not."""
    written = {stage.stage: stage.variation_of or stage.stage for stage in plan.stages}
    loops = Counter(
        (len(fused.steps), first_to_last(list(dict.fromkeys(written[step.stage] for step in fused.steps))))
        for segment in plan.segments
        for fused in segment.fused
    )
    for position, ((size, stages), times) in enumerate(list(loops.items())[:MOST_LINES]):
        words = f"{plural(size, 'stage')} as one loop" if size > 1 else "1 stage"
        yield titled("" if position else "compiled", f"{words}: {with_variations(stages, times - 1)}")
    reasons: dict[str, set[str]] = {}
    for stage in plan.stages:
        if stage.not_compiled:
            reasons.setdefault(stage.not_compiled, set()).add(written[stage.stage])
    for position, (reason, names) in enumerate(list(reasons.items())[:MOST_LINES]):
        yield titled("" if position else "ordinary", f"{listed(names)}: {reason}")


def titled(title: str, words: str) -> Text:
    """A line below the tables."""
    return Text.assemble((f"{title:<10}", "bold"), words)


def _table(columns: Sequence[TableColumn]) -> FittedTable:
    return FittedTable(columns, header_style="bold underline", gap=2)
