"""Find what the page shows of a run's products: pictures, and products that are tables."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from cenote.plan.outputs.names import product_stem
from cenote.products.interface import ProductTable
from cenote.runs.folder import RunFolder
from cenote.runs.summary import ProductRecord
from cenote.runtime.publish import product_kind
from cenote.values import dataclass

TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
"""Formats that a page can show, the preferred one first."""
OFFERED = (*TYPES, ".pdf", ".csv")
"""Files of the same name that a page links to: other formats, and a table of the numbers that are drawn."""


@dataclass(frozen=True)
class ShownPicture:
    """A picture: the file to show, the same in other formats and as a table, and what it was drawn from."""

    file: Path
    others: tuple[str, ...]
    """Relative to the run's folder."""
    caption: str
    product: ProductRecord | None

    @property
    def source(self) -> str:
        """The picture within the page."""
        return data_uri(self.file.read_bytes(), self.file.suffix)


def data_uri(content: bytes, suffix: str) -> str:
    """A file of this format, as an address that holds it."""
    return f"data:{TYPES[suffix]};base64,{b64encode(content).decode()}"


def read_pictures(run: RunFolder, products: Iterable[ProductRecord]) -> list[ShownPicture]:
    """One for each picture, in the order of the products; then pictures that no product names."""
    maker = {plot: product for product in products for plot in product.plots}
    found = sorted(path for path in run.plots.rglob("*"))
    pictures: dict[Path, list[Path]] = {}
    for path in dict.fromkeys((*(run.path / plot for plot in maker), *found)):
        if path.suffix in OFFERED and path.is_file():
            pictures.setdefault(path.with_suffix(""), []).append(path)
    shown = []
    for files in pictures.values():
        file = next((path for kind in TYPES for path in files if path.suffix == kind), None)
        if file is not None:
            others = tuple(path.relative_to(run.path).as_posix() for path in files)
            caption = file.relative_to(run.plots).with_suffix("").as_posix()
            shown.append(ShownPicture(file, others, caption, maker.get(file.relative_to(run.path).as_posix())))
    return shown


def read_tables(run: RunFolder, products: Iterable[ProductRecord]) -> list[tuple[str, str, Sequence[ProductTable]]]:
    """(kind, name, tables) of every product that is a table and can be read."""
    found = []
    for product in products:
        kind = product_kind(product.kind)
        if kind.tabular:
            with suppress(Exception):  # a kind of product may be anybody's; a damaged file costs only its table
                tables = kind.tables(kind.load(run.products, product_stem(product.name)))
                found += [(product.kind, product.name, tables)] if tables else []
    return found
