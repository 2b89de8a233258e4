"""Write the sections about results: what failed, pictures, cutflows, files."""

from __future__ import annotations

import base64
from urllib.parse import quote

from cenote.report.markup import Markup, element, joined
from cenote.report.run_record import CutflowRecord, CutRecord, FailureRecord, PictureRecord, RunRecord
from cenote.report.tables import Cell, badge, bar, count, folded, pairs, table

TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
CAUSES = {
    "error": "an exception in the stage's own code",
    "bad_input": "an input could not be read",
    "timeout": "it ran longer than its time limit",
    "lost": "its worker was lost",
    "oom": "it ran out of memory",
    "damaged": "a damaged result of an earlier task",
    "internal": "a fault of Cenote itself",
}
"""What each cause means to a reader."""
MOST_FAILURES = 200


def failures(run: RunRecord) -> Markup | None:
    """Each with where it happened, and the traceback of the user's own code to open."""
    if not run.failures:
        return None
    shown = [_failure(one) for one in run.failures[:MOST_FAILURES]]
    hidden = len(run.failures) - len(shown)
    more = element("p", f"and {hidden} more: summary.json lists them all") if hidden > 0 else None
    return joined(shown, more)


def _failure(one: FailureRecord) -> Markup:
    cause = CAUSES.get(one.cause, one.cause)
    return element(
        "article",
        element("h3", element("span", one.stage), " ", element("small", cause) if cause else None),
        element("pre", one.message, class_="message"),
        pairs((name, element("code", value)) for name, value in one.where) if one.where else None,
        folded("Traceback", element("pre", one.traceback)) if one.traceback else None,
        class_="failure",
    )


def warnings(run: RunRecord) -> Markup | None:
    """What the plan and the run warned of."""
    if not run.warnings:
        return None
    return element("ul", (element("li", warning) for warning in run.warnings), class_="warnings")


def pictures(run: RunRecord) -> Markup | None:
    """All pictures, within the page."""
    if not run.pictures:
        return None
    return element("div", (_picture(picture) for picture in run.pictures), class_="gallery")


def _picture(picture: PictureRecord) -> Markup:
    data = base64.b64encode(picture.file.read_bytes()).decode()
    alt = f"Picture {picture.caption}" + (f", drawn from {picture.description}" if picture.description else "")
    image = element("img", src=f"data:{TYPES[picture.file.suffix]};base64,{data}", alt=alt, loading="lazy")
    links = [joined(" ", element("a", file.rpartition(".")[2], href=quote(file))) for file in picture.others]
    caption = element(
        "figcaption",
        element("strong", picture.caption),
        " ",
        badge("partial", "partial") if picture.partial else None,
        element("span", picture.description, class_="detail") if picture.description else None,
        element("span", links, class_="links"),
    )
    return element("figure", element("div", image, class_="paper"), caption)


def cutflows(run: RunRecord) -> Markup | None:
    """For each cutflow a table per dataset."""
    shown = [_cutflow(one) for one in run.cutflows if one.tables]
    return joined(shown) if shown else None


def _cutflow(cutflow: CutflowRecord) -> Markup:
    tables = [
        _cuts(dataset, selection, cuts, named=len({group for _, group, _ in cutflow.tables}) > 1)
        for dataset, selection, cuts in cutflow.tables
    ]
    return element("article", element("h3", cutflow.name), tables, class_="cutflow")


def _cuts(dataset: str, selection: str, cuts: tuple[CutRecord, ...], *, named: bool) -> Markup:
    weighted = any(cut.weighted_out is not None for cut in cuts)
    first = cuts[0].entering
    rows = []
    for cut in cuts:
        own = cut.leaving / cut.entering if cut.entering else None
        total = cut.leaving / first if first else None
        sums = (_sum(cut.weighted_in), _sum(cut.weighted_out)) if weighted else ()
        share = Cell("–") if own is None else Cell(f"{own:.2%}", own)
        rest = Cell("–") if total is None else Cell(bar(total, f"{total:.2%}"), total)
        rows.append((cut.label, count(cut.entering), count(cut.leaving), share, rest, *sums))
    headings = ("Cut", "In", "Out", "Efficiency", "Cumulative", *(("Weighted in", "Weighted out") if weighted else ()))
    return table(headings, rows, caption=f"{dataset}, {selection}" if named else dataset)


def _sum(value: float | None) -> Cell:
    return Cell("–") if value is None else Cell(f"{value:.6g}", value)


def products(run: RunRecord) -> Markup | None:
    """The files that hold the numbers."""
    if not run.products:
        return None
    rows = [
        (
            joined(one.name, " ", badge("partial", "partial") if one.partial else None),
            one.kind,
            one.description or "–",
            joined(*(element("div", element("a", file, href=quote(file))) for file in one.files)),
        )
        for one in run.products
    ]
    return table(("Product", "Kind", "Content", "Files"), rows, caption="Products and their files")
