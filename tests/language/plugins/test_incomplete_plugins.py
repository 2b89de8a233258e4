"""Test that a plugin that lacks a method is refused by name, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cenote.common import errors
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind

ABSTRACT = {
    PluginKind.OPERATION: {"run"},
    PluginKind.SOURCE: {"describe", "read"},
    PluginKind.SINK: {"write"},
    PluginKind.RENDERER: {"draw"},
    PluginKind.MODIFIER: {"around"},
    PluginKind.BACKEND: {"open"},
    PluginKind.STRATEGY: {"render", "submit", "poll", "cancel"},
    PluginKind.PRODUCT: {"merge", "save", "load", "describe"},
    PluginKind.ENVIRONMENT: {"complete", "describe"},
    PluginKind.CREDENTIAL: {"check", "facts", "read", "variables"},
}


@pytest.fixture(autouse=True)
def _own_plugins_stay_here() -> Iterator[None]:
    restore = registry.forget_added()
    yield
    restore()


@pytest.mark.parametrize("kind", list(PluginKind))
def test_a_class_without_the_methods_of_its_kind_is_a_bad_plugin(kind: PluginKind, tmp_path: Path) -> None:
    interface = kind.value.capitalize()
    file = tmp_path / "own.py"
    file.write_text(
        f"from typing import ClassVar\n\nfrom {kind.packages[0]}.interface import {interface}\n\n\n"
        f"class Unfinished({interface}):\n"
        f"    cenote_plugin: ClassVar = ('{kind.value}', 'custom.unfinished')\n"
    )
    with pytest.raises(errors.CenoteError) as caught:
        registry.add_file(file)
    (problem,) = caught.value.problems
    assert problem.kind is errors.BAD_PLUGIN
    assert "custom.unfinished" in problem.message
    assert all(f"`{method}`" in problem.message for method in ABSTRACT[kind])
    assert "custom.unfinished" not in registry.names(kind)
