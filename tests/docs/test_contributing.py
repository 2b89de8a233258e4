"""Test that CONTRIBUTING.md shows a short plugin of every kind, and which files a change touches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cenote.plugins.kinds import PluginKind

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"(?ms)^<!-- file: (\w+\.py) -->\n```python\n(.*?)^```$", PAGE))
MOST_LINES = 30


@pytest.mark.parametrize("kind", list(PluginKind))
def test_every_kind_has_a_skeleton_and_its_contract(kind: PluginKind) -> None:
    interface, plugins = kind.value.capitalize(), [text for name, text in FILES.items() if not name.startswith("test_")]
    tests = [text for name, text in FILES.items() if name.startswith("test_")]
    assert any(re.search(rf"class \w+\((Batch)?{interface}\):", text) for text in plugins)
    assert any(f"({interface}Contract):" in text for text in tests)


@pytest.mark.parametrize("name", FILES)
def test_a_skeleton_is_short(name: str) -> None:
    lines = [line for line in FILES[name].splitlines() if line.strip() and not line.startswith(("import ", "from "))]
    assert len(lines) <= MOST_LINES


CHANGES = re.findall(r"(?m)^\| (an? [^|]+) \| (.+) \|$", PAGE)
CARRIED_BY_ONE = {"a command", "an operation", "a backend", "an environment", "a credential"}


def test_twelve_changes_touch_three_files_at_the_most_and_these_are_there() -> None:
    assert len(CHANGES) == 12
    for change, files in CHANGES:
        named = re.findall(r"`((?:src|tests)/[^`]+)`", files)
        used_elsewhere = "and the place that" in files
        assert 1 <= len(named) + used_elsewhere <= 3, change
        assert len(named) == 1 or change not in CARRIED_BY_ONE
        for file in named:
            path = ROOT / file
            assert path.parent.is_dir() if path.stem == "NAME" else path.exists(), file


def test_no_word_is_in_the_glossary_twice() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    words = re.findall(r"(?m)^\| ([a-z ]+) \| ", text.partition("## The words")[2].partition("\n## ")[0])[1:]
    assert words
    assert len(words) == len(set(words))
