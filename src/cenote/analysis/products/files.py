"""The product `files`: what a stage wrote beside the products, kept as a list."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from cenote.analysis.products.interface import Product
from cenote.common.storage import write_text
from cenote.common.text import plural
from cenote.common.units import format_bytes, format_count

SHOWN = "shown"
"""True of a file that is a short text for people: a table."""
TEMPLATE = "template"
"""The `path` of the `write` that a file comes from."""


class FilesProduct(Product):
    """Lists of `{path, dataset, entries, bytes, template}`, one per file."""

    example: ClassVar[str] = """
    - id: Skim
      op: hep.select
      params: {selection: ["nMuon >= 2"]}
      write: {kind: root_tree, path: skim.root}
    """

    def merge(self, parts: Sequence[Any]) -> Any:
        """One list after the other."""
        return [written for part in parts for written in part]

    def save(self, value: Any, folder: Path, name: str) -> list[Path]:
        """`<name>.json`: the list, with totals."""
        manifest = {"kind": "files", "entries": _events(value), "files": list(value)}
        return [write_text(folder / f"{name}.json", json.dumps(manifest, indent=1))]

    def load(self, folder: Path, name: str) -> Any:
        """The list."""
        return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["files"]

    def describe(self, value: Any) -> str:
        """`3 files, 1.2 M events, 40 MB`."""
        files = plural(len(value), "file")
        size = sum(int(written.get("bytes", 0)) for written in value)
        return f"{files}, {format_count(_events(value))} events, {format_bytes(size)}"


def _events(files: Sequence[Any]) -> int:
    """How many events were written: once, whatever number of forms they were written in."""
    by_form: Counter[str] = Counter()
    for written in files:
        by_form[written.get(TEMPLATE, "")] += int(written.get("entries", 0))
    return max(by_form.values(), default=0)
