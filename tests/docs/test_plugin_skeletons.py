"""Test that the page about plugins shows a short plugin of every kind, with its contract.

That they work, the page itself proves: its blocks are run by another file here.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from cenote.language.plugins.kinds import PluginKind

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "write-a-plugin.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"(?ms)^<!-- file: (\w+\.py) -->\n```python\n(.*?)^```$", PAGE))
MOST_LINES = 30
"""Of code: an interface that asks for more is too large."""


@pytest.mark.parametrize("kind", list(PluginKind))
def test_every_kind_has_a_skeleton_and_its_contract(kind: PluginKind) -> None:
    interface, plugins = kind.value.capitalize(), [text for name, text in FILES.items() if not name.startswith("test_")]
    tests = [text for name, text in FILES.items() if name.startswith("test_")]
    assert any(re.search(rf"class \w+\((Batch)?{interface}\):", text) for text in plugins)
    assert any(f"({interface}Contract):" in text for text in tests)


@pytest.mark.parametrize("name", FILES)
def test_a_skeleton_is_short(name: str) -> None:
    imports = [node for node in ast.parse(FILES[name]).body if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {number for node in imports for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines = [line for number, line in enumerate(FILES[name].splitlines(), 1) if line.strip() and number not in imported]
    assert len(lines) <= MOST_LINES
