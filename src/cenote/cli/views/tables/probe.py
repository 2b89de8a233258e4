"""Lay out what a probe found: pool by pool, question by question, with what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cenote.common.text import listed, plural
from cenote.common.units import format_seconds
from cenote.planning.probes.result import Finding

if TYPE_CHECKING:  # with cryptography, which plans do without
    from cenote.execution.probe.run import PoolProbe, ProbeResult

VERDICT_STYLES = {"ok": "green", "warning": "yellow", "problem": "red"}
_IN_SHORT = {"ok": "works", "warning": "works, with warnings", "problem": "cannot work"}


def show_probe(result: ProbeResult, console: Console) -> None:
    """Everything `cenote probe` prints."""
    if not result.jobs:
        console.print("this backend submits no jobs: only this machine can be probed", soft_wrap=True)
        console.print()
    for pool in result.pools:
        console.print(_heading(pool))
        console.print(finding_rows(pool.findings))
        console.print()
    console.print(Text(in_short(result), style="bold"), soft_wrap=True)


def _heading(pool: PoolProbe) -> Text:
    style = VERDICT_STYLES[pool.verdict]
    return Text.assemble((pool.pool, "bold"), (f" ({pool.strategy})", "dim"), " ", (_IN_SHORT[pool.verdict], style))


def finding_rows(findings: tuple[Finding, ...]) -> Table:
    """Verdict, question, what was found; below it what the job wrote last, and what to do."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, min_width=len("  problem"))
    table.add_column(no_wrap=True, min_width=len("packages"))
    table.add_column(overflow="fold")
    for finding in findings:
        style = VERDICT_STYLES[finding.verdict]
        found = Text(finding.words)
        for line in finding.lines:
            found.append(f"\n│ {line}", style="dim")
        if finding.hint and finding.verdict != "ok":
            found.append("\nhint: ", style="cyan").append(finding.hint)
        table.add_row(Text(f"  {finding.verdict}", style=style), finding.question, found)
    return table


def in_short(result: ProbeResult) -> str:
    """`3 pools probed in 6 s: default and gpu work, high_memory cannot`."""
    able = [pool.pool for pool in result.pools if pool.verdict != "problem"]
    unable = [pool.pool for pool in result.pools if pool.verdict == "problem"]
    what = f"{plural(len(result.pools), 'pool')} probed in {format_seconds(result.seconds)}"
    if len(result.pools) == 1:
        return f"{what}: it {'can' if able else 'cannot'} work"
    if not unable:
        return f"{what}: all of them can work"
    if not able:
        return f"{what}: none of them can work"
    return f"{what}: {listed(able)} can work, {listed(unable)} cannot"
