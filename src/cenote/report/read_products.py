"""Find the pictures and cutflows that a run left."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cenote.report.json_fields import Fields
from cenote.report.run_record import CutflowRecord, CutRecord, PictureRecord, ProductRecord

SHOWN = (".png", ".svg")
"""Formats that a page can show, the preferred one first."""
OFFERED = (*SHOWN, ".pdf")


def read_pictures(folder: Path, products: Iterable[ProductRecord]) -> tuple[PictureRecord, ...]:
    """One for each picture, in the order of the products; then pictures that no product names."""
    maker = {plot: product for product in products for plot in product.plots}
    named = [folder / plot for plot in maker]
    found = sorted(path for path in (folder / "plots").rglob("*") if path.suffix in OFFERED and path.is_file())
    pictures: dict[Path, list[Path]] = {}
    for path in (*named, *found):
        if path.suffix in OFFERED and path.is_file():
            files = pictures.setdefault(path.with_suffix(""), [])
            files += [path] if path not in files else []
    return tuple(record for files in pictures.values() if (record := _picture(folder, files, maker)) is not None)


def _picture(folder: Path, files: list[Path], maker: dict[str, ProductRecord]) -> PictureRecord | None:
    shown = next((path for kind in SHOWN for path in files if path.suffix == kind), None)
    if shown is None:
        return None
    product = maker.get(shown.relative_to(folder).as_posix())
    return PictureRecord(
        file=shown,
        others=tuple(path.relative_to(folder).as_posix() for path in files),
        caption=shown.relative_to(folder / "plots").with_suffix("").as_posix(),
        description=f"{product.name}: {product.description or product.kind}" if product else "",
        partial=product.partial if product else False,
    )


def read_cutflows(products: Path) -> tuple[CutflowRecord, ...]:
    """Every cutflow among the products."""
    found = []
    for path in sorted(products.glob("*.json")):
        document = Fields.from_file(path)
        if document.text("kind") == "cutflow":
            found.append(_cutflow(path.stem, document))
    return tuple(found)


def _cutflow(name: str, document: Fields) -> CutflowRecord:
    tables: dict[tuple[str, str], list[CutRecord]] = {}
    weighted = document.flag("weighted")
    nodes = document.objects("nodes")
    for dataset in document.texts("datasets"):
        for node in nodes:
            stats = node.inner("stats").inner(dataset)
            if stats:
                cut = CutRecord(
                    label=node.text("label") or node.text("expr") or node.text("id"),
                    entering=stats.whole("n_unweighted_in"),
                    leaving=stats.whole("n_unweighted_out"),
                    weighted_in=stats.number("sumw_in") if weighted else None,
                    weighted_out=stats.number("sumw_out") if weighted else None,
                )
                tables.setdefault((dataset, node.text("selection")), []).append(cut)
    return CutflowRecord(name, tuple((*key, tuple(cuts)) for key, cuts in tables.items()))
