"""Test that CONTRIBUTING.md names the files that a change touches: they are there, few, and no others have to change.

The last column of its table names something of the kind in our code. Where that name stands is what such a change
touches: files that the row does not name are those that obey it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
MOST_FILES = 3
MORE_FILES = {
    "a setting of pools": 4,
    "an event": 4,
    "a field of `summary.json`": 4,
    "an endpoint of the service, with SDK and command": 7,
}
"""Changes that touch more today. A number here only ever gets smaller."""
MOST_OBEY = 2
"""Files besides those of the row: they are where a setting, a rule or an event has its effect."""


class Change(NamedTuple):
    """A row of the table."""

    what: str
    files: tuple[str, ...]
    """Of this repository; `NAME` stands for the name of what is new."""
    like: tuple[str, ...]

    def names(self, file: str) -> bool:
        """Whether the row has this file, by its name or as a file of a plugin."""
        return any(pattern_of(one).fullmatch(file) for one in self.files)


def pattern_of(file: str) -> re.Pattern[str]:
    """`operations/NAME.py` is any file below `operations/`: plugins may be folders, and lie deeper."""
    known, name, _ = file.partition("NAME")
    return re.compile(re.escape(known) + (r"[\w/]+\.py" if name else ""))


def changes() -> list[Change]:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (an? [^|]+) \| ([^|]+) \| ([^|]+) \|$", page)
    return [
        Change(what, tuple(re.findall(r"`((?:src|tests)/[^`]+)`", files)), tuple(re.findall(r"`([^`]+)`", like)))
        for what, files, like in rows
    ]


@cache
def our_texts() -> dict[str, str]:
    found = [file for file in (ROOT / "src").rglob("*") if file.suffix in {".py", ".j2"}]
    return {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in found}


def where(name: str) -> set[str]:
    """Files of our code in which a name stands, but for those that only hand it on."""
    whole = re.compile(rf"(?<!\w){re.escape(name)}\b")
    return {file for file, text in our_texts().items() if whole.search(text) and not file.endswith("/__init__.py")}


def test_the_table_has_every_kind_of_change() -> None:
    found = [change.what for change in changes()]
    assert len(found) == len(set(found)) == 15
    assert set(MORE_FILES) <= set(found)


@pytest.mark.parametrize("change", changes(), ids=lambda change: change.what)
def test_files_of_a_change_are_there(change: Change) -> None:
    for file in change.files:
        path = ROOT / file
        assert path.parent.is_dir() if path.stem == "NAME" else path.exists(), file


@pytest.mark.parametrize("change", changes(), ids=lambda change: change.what)
def test_a_change_touches_few_files(change: Change) -> None:
    most = MORE_FILES.get(change.what, MOST_FILES)
    assert len(change.files) == most if change.what in MORE_FILES else 1 <= len(change.files) <= most


@pytest.mark.parametrize("change", [one for one in changes() if one.like], ids=lambda change: change.what)
def test_a_change_touches_no_other_files(change: Change) -> None:
    touched = {file for name in change.like for file in where(name)}
    others = {file for file in touched if not change.names(file)}
    assert touched - others, f"nothing of {change.like} is in the files of this row"
    assert len(others) <= MOST_OBEY, f"these files know {change.like} too: {', '.join(sorted(others))}"
