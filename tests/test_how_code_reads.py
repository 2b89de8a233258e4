"""What CONTRIBUTING.md says of our code, where a machine can tell."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import cenote
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind

ROOT = Path(cenote.__file__).parent
NOT_PLAIN = re.compile(
    r"\b(mend(s|ed)?|makes? do|for ever|nobody|somebody|told|said|vouche?s?|so many|goes on)\b"
    r"|(?<!there )\b(is|are|was) no (?!longer\b|more\b|such\b|need\b)",
    re.IGNORECASE,
)
"""Words that texts for users do without; what something is not, it `is not a` …"""
MOST_AT_THE_TOP = 14
"""Files and folders of the package: the list is the architecture."""
MOST_MODULES = 602
"""That hold code. This number only ever gets smaller."""


@cache
def modules() -> dict[str, ast.Module]:
    """All of ours, but for the examples that users get."""
    files = [file for file in sorted(ROOT.rglob("*.py")) if "templates" not in file.parts]
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text(encoding="utf-8")) for file in files}


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    return [(name, node) for name, module in modules().items() for node in ast.walk(module)]


def texts_in(node: ast.AST) -> set[str]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def test_the_top_of_the_package_is_its_architecture() -> None:
    assert len([one for one in ROOT.iterdir() if one.name != "__pycache__"]) <= MOST_AT_THE_TOP


def test_there_are_no_more_modules_than_a_person_can_know() -> None:
    empty = [name for name, module in modules().items() if len(module.body) <= bool(ast.get_docstring(module))]
    assert len(modules()) - len(empty) <= MOST_MODULES


def test_no_class_name_is_there_twice() -> None:
    classes = [node.name for _, node in nodes() if isinstance(node, ast.ClassDef)]
    assert [name for name, times in Counter(classes).items() if times > 1 and not name.startswith("_")] == []


def test_modules_begin_with_what_they_do() -> None:
    first = {name: (ast.get_docstring(module) or "").partition("\n")[0] for name, module in modules().items()}
    assert [name for name, line in first.items() if not line and not name.endswith("__init__.py")] == []
    assert [name for name, line in first.items() if line.startswith(("This file", "This module"))] == []


def test_texts_for_users_are_plain() -> None:
    docs = {id(node.value) for _, node in nodes() if isinstance(node, ast.Expr)}
    texts = [(name, node) for name, node in nodes() if isinstance(node, ast.Constant) and id(node) not in docs]
    assert [f"{name}:{text.lineno}" for name, text in texts if NOT_PLAIN.search(str(text.value))] == []


def test_no_code_asks_for_a_backend_or_a_strategy_by_its_name() -> None:
    known = {*registry.built_in_names(PluginKind.BACKEND), *registry.built_in_names(PluginKind.STRATEGY)}
    compared = [(name, node) for name, node in nodes() if isinstance(node, ast.Compare)]
    assert [f"{name}:{node.lineno}" for name, node in compared if texts_in(node) & known] == []


def test_the_engine_decides_by_its_plan_and_not_by_the_workflow_behind_it() -> None:
    reads = [(name, node) for name, node in nodes() if isinstance(node, ast.Attribute) and node.attr == "workflow"]
    assert [f"{name}:{node.lineno}" for name, node in reads if name.startswith("engine/")] == []
