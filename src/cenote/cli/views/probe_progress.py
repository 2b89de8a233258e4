"""Show how probes stand while one waits: a live line for each pool on a terminal, news lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cenote.cli.views.progress import planning_line
from cenote.probe.run import PoolProbe
from cenote.text import format_estimate

_PHASES = {
    "asking": "asking for a job",
    "waiting": "waits",
    "running": "looks around",
    "reported": "has reported",
    "over": "done",
}


class ProbeProgress(Protocol):
    """A context that is told how all pools stand."""

    def __call__(self, pools: Sequence[PoolProbe]) -> None: ...
    def planning(self, done: int, files: int) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


def probe_progress_on(console: Console, *, quiet: bool, title: str) -> ProbeProgress:
    """The kind of progress that suits this console."""
    if quiet:
        return ProbeSilence()
    return LiveLines(console, title) if console.is_terminal and not console.is_dumb_terminal else NewsLines(console)


def in_words(pool: PoolProbe) -> str:
    """`job 4711 waits: PENDING: Priority`."""
    words = _PHASES[pool.phase]
    job = f"job {pool.job} " if pool.job and pool.phase != "asking" else ""
    said = f": {pool.words}" if pool.words and pool.phase in ("asking", "waiting") else ""
    return f"{job}{words}{said}"


class ProbeSilence:
    """Nothing is shown."""

    def __call__(self, pools: Sequence[PoolProbe]) -> None:
        """Nothing to say."""

    def planning(self, done: int, files: int) -> None:
        """Nothing to say."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""


class NewsLines(ProbeSilence):
    """A line whenever something changes; how it ended is told in full afterwards."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: dict[str, str] = {}

    def __call__(self, pools: Sequence[PoolProbe]) -> None:
        for pool in pools:
            words = in_words(pool)
            if words != self._said.get(pool.pool) and pool.phase not in ("asking", "over"):
                self._console.print(f"{pool.pool}: {words}", soft_wrap=True)
            self._said[pool.pool] = words


class LiveLines(ProbeSilence):
    """A line for each pool, and how long it has been."""

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._began = time.monotonic()
        self._live = Live(console=console, refresh_per_second=5, transient=True)

    def __call__(self, pools: Sequence[PoolProbe]) -> None:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        elapsed = format_estimate(max(1.0, time.monotonic() - self._began))
        table.title, table.title_justify = Text.assemble((f"{self._title} ", "bold"), f"probing for {elapsed}"), "left"
        for pool in pools:
            table.add_row(pool.pool, Text(in_words(pool), overflow="ellipsis", no_wrap=True))
        self._live.update(table)

    def planning(self, done: int, files: int) -> None:
        """Shown until the first job."""
        self._live.update(Text.assemble((f"{self._title} ", "bold"), planning_line(done, files)))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
