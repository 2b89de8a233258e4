"""Put the page together: head, style, the sections in the order in which people ask for them."""

from __future__ import annotations

from pathlib import Path

from cenote.report import headline, provenance_section, results_sections, work_sections
from cenote.report.markup import Markup, element, joined
from cenote.report.run_record import RunRecord

SECTIONS = (
    ("failures", "Failures", results_sections.failures),
    ("warnings", "Warnings", results_sections.warnings),
    ("pictures", "Pictures", results_sections.pictures),
    ("cutflows", "Cutflows", results_sections.cutflows),
    ("plan", "Plan", work_sections.plan),
    ("stages", "Stages", work_sections.stages),
    ("pools", "Pools", work_sections.pools),
    ("fallbacks", "Fallbacks", work_sections.fallbacks),
    ("products", "Products", results_sections.products),
    ("provenance", "Provenance", provenance_section.provenance),
)
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""A browser that keeps to it asks nobody for anything."""


def page(run: RunRecord) -> str:
    """The whole document. Sections with nothing to say are left out."""
    there = [(anchor, title, body) for anchor, title, make in SECTIONS if (body := make(run)) is not None]
    menu = element("nav", (element("a", title, href=f"#{anchor}") for anchor, title, _ in there), aria_label="Sections")
    sections = [
        element(
            "section", element("h2", title, id=f"{anchor}-title"), body, id=anchor, aria_labelledby=f"{anchor}-title"
        )
        for anchor, title, body in there
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{run.name}: {run.status}"),
        element("style", Markup(_beside("page.css"))),
    )
    body = element(
        "body",
        headline.header(run),
        menu,
        element("main", sections),
        element("footer", element("p", "Written by Cenote. Everything on this page is in the page itself.")),
        element("script", Markup(_beside("page.js"))),
    )
    return joined(Markup("<!DOCTYPE html>\n"), element("html", head, body, lang="en"), Markup("\n"))


def _beside(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
