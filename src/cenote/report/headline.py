"""Write the top of the page: how the run ended, when, how long, and its main numbers."""

from __future__ import annotations

from cenote.report.markup import Markup, element, joined
from cenote.report.run_record import RunRecord
from cenote.report.tables import clock, grouped
from cenote.units import format_bytes, format_count, format_seconds

WORDS = {
    "succeeded": "everything was computed",
    "partial": "some parts are missing: see the failures",
    "failed": "the run failed",
    "cancelled": "the run was cancelled before its end",
    "unfinished": "the run has not ended, or was killed",
}
"""What each status means to a reader."""


def header(run: RunRecord) -> Markup:
    """The headline and the numbers below it."""
    kind = run.status if run.status in WORDS else "unfinished"
    return element(
        "header",
        element("p", "Cenote run", class_="eyebrow"),
        element("h1", run.name, " ", element("span", run.status, class_=f"badge big {kind}")),
        element("p", WORDS[kind], class_="meaning"),
        element("p", _when(run), class_="when"),
        element("p", element("code", run.command), class_="command") if run.command else None,
        element("ul", _tiles(run), class_="tiles"),
    )


def _when(run: RunRecord) -> Markup:
    parts: list[Markup] = []
    if run.started:
        parts.append(joined("started ", element("time", clock(run.started), datetime=run.started)))
    if run.ended:
        parts.append(joined("ended ", element("time", clock(run.ended), datetime=run.ended)))
    if run.resumed:
        parts.append(joined("resumed from an earlier run"))
    return joined(*(joined(" · " if place else "", part) for place, part in enumerate(parts)))


def _tiles(run: RunRecord) -> list[Markup]:
    cost = sum(pool.cost for pool in run.pools if pool.cost is not None)
    done = f"{grouped(run.done)} of {grouped(run.tasks)}"
    details = [
        f"{grouped(number)} {word}"
        for number, word in ((run.failed, "failed"), (run.reused, "reused"), (run.retries, "retried"))
        if number
    ]
    rate = f"{format_count(run.events / run.seconds)} per second" if run.events and run.seconds else ""
    tiles = [
        (
            "duration",
            format_seconds(run.seconds),
            f"{format_seconds(run.cpu_seconds)} of CPU" if run.cpu_seconds else "",
        ),
        ("tasks done", done, ", ".join(details)),
        ("events read", format_count(run.events), rate) if run.events else None,
        ("read", format_bytes(run.bytes_read), "") if run.bytes_read else None,
        ("peak memory", format_bytes(run.peak_memory), "of one task") if run.peak_memory else None,
        ("cost", f"{cost:.4g}", "in the unit of the pools") if cost else None,
    ]
    return [_tile(*tile) for tile in tiles if tile is not None]


def _tile(name: str, value: str, detail: str) -> Markup:
    return element(
        "li",
        element("span", name, class_="name"),
        element("strong", value),
        element("span", detail, class_="detail") if detail else None,
    )
