"""Name the files and folders that results lie in, below the folder of a run."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # completions and `clean` know these names without the language
    from cenote.language.workflow import Render

PRODUCTS, PLOTS, REPORTS = "products", "plots", "reports"
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


def report_path(written: str) -> Path:
    """Of a file of a report, below `reports/`, which FAST-HEP's users write as a part of the name."""
    path = Path(written)
    return path.relative_to(REPORTS) if path.parts[:1] == (REPORTS,) else path


def skim_path(template: str, *, dataset: str, part: str | None, suffix: str) -> Path:
    """`skim.root` → `skim/<dataset>/00003.root`; a template with `{dataset}` and `{part}` is taken as written.

    Parts are counted in each dataset, so the dataset is always a part of the name. Without a part, one file holds
    the whole dataset: `skim.root` → `skim/<dataset>.root`.
    """
    if part is not None and ("{part}" in template or "{partition_id}" in template):
        named = Path(template.replace("{part}", part).replace("{partition_id}", part).replace("{dataset}", dataset))
        return named if "{dataset}" in template else named.parent / dataset / named.name
    ending = Path(template).suffix
    stem = template.removesuffix(ending) if "{dataset}" in template else f"{template.removesuffix(ending)}/{{dataset}}"
    whole = stem.replace("{dataset}", dataset) + ("" if part is None else f"/{part}")
    return Path(whole + (ending or suffix))


def whole_path(template: str, *, dataset: str | None, suffix: str) -> Path:
    """The file of a whole dataset; without a dataset, of the whole run: `table.txt` is taken as written."""
    if dataset is not None:
        return skim_path(template, dataset=dataset, part=None, suffix=suffix)
    return Path(template if Path(template).suffix else template + suffix)


def parts_folder(whole: Path) -> Path:
    """Where the parts of a file that holds a whole dataset lie until the run ends, below `products/`."""
    return PARTS / (whole.relative_to("/") if whole.is_absolute() else whole)
