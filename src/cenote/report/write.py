"""Write `report.html` of a run: read what the run left, make the page, put it in place."""

from __future__ import annotations

from pathlib import Path

from cenote import storage
from cenote.report.page import page
from cenote.report.read_run import read_run

NAME = "report.html"


def write_report(folder: Path) -> Path:
    """Make `report.html` in the folder of a run and return where it is. The file is whole whenever it is there."""
    text = page(read_run(folder))
    return storage.write_text(folder / NAME, text)
