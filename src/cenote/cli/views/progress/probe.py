"""Show how probes stand while one waits: a live line for each pool on a terminal, news lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cenote.cli.views.progress.live import LiveProgress, PackingLines, is_live
from cenote.cli.views.progress.silence import Silence
from cenote.common.text import format_estimate
from cenote.execution.packing.archive import PackingStep
from cenote.execution.probe.run import PoolProbe

_PHASES = {
    "asking": "asking for a job",
    "waiting": "waits",
    "running": "looks around",
    "reported": "has reported",
    "over": "done",
}


def probe_progress_on(console: Console, *, quiet: bool, title: str) -> Silence[Sequence[PoolProbe]]:
    """The kind of progress that suits this console."""
    if quiet:
        return Silence()
    return LiveLines(console, title) if is_live(console) else NewsLines(console)


def in_words(pool: PoolProbe) -> str:
    """`job 4711 waits: PENDING: Priority`."""
    words = _PHASES[pool.phase]
    job = f"job {pool.job} " if pool.job and pool.phase != "asking" else ""
    said = f": {pool.words}" if pool.words and pool.phase in ("asking", "waiting") else ""
    return f"{job}{words}{said}"


class NewsLines(Silence[Sequence[PoolProbe]]):
    """A line whenever something changes; how it ended is told in full afterwards."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: dict[str, str] = {}
        self._packing = PackingLines(console)

    def packing(self, step: PackingStep) -> None:
        """Before the first job."""
        self._packing(step)

    def __call__(self, view: Sequence[PoolProbe]) -> None:
        for pool in view:
            words = in_words(pool)
            if words != self._said.get(pool.pool) and pool.phase not in ("asking", "over"):
                self._console.print(f"{pool.pool}: {words}", soft_wrap=True)
            self._said[pool.pool] = words


class LiveLines(LiveProgress[Sequence[PoolProbe]]):
    """A line for each pool, and how long it has been."""

    def __init__(self, console: Console, title: str) -> None:
        super().__init__(console, title)
        self._began = time.monotonic()

    def __call__(self, view: Sequence[PoolProbe]) -> None:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        elapsed = format_estimate(max(1.0, time.monotonic() - self._began))
        table.title, table.title_justify = Text.assemble((f"{self._title} ", "bold"), f"probing for {elapsed}"), "left"
        for pool in view:
            table.add_row(pool.pool, Text(in_words(pool), overflow="ellipsis", no_wrap=True))
        self._live.update(table)
