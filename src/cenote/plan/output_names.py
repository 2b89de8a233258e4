"""Name the files and folders that results lie in, below the folder of a run."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # completions and `clean` know these names without the language
    from cenote.language.workflow import Render

PRODUCTS, PLOTS = "products", "plots"
"""The folders of a run that results lie in."""

PARTS = Path(".parts")
"""The folder below `products/` with the parts of files that hold a whole dataset: `--resume` finds them there."""

ENDINGS = frozenset({".png", ".pdf", ".svg", ".csv", ".json", ".txt", ".tex", ".html"})
"""Endings of `out` that are no part of the name: a renderer adds its own."""


def product_stem(product: str) -> str:
    """What the files of a product are called below `products/`, without their endings."""
    return product.replace(":", ".")


def plot_stem(product: str, number: int, render: Render) -> str:
    """What the files of the picture with this number are called below `plots/`, folders included, without endings."""
    if render.out is None:
        return product_stem(product) + (f"-{number}" if number else "")
    written = PurePosixPath(render.out)
    return str(written.with_suffix("") if written.suffix.lower() in ENDINGS else written)
