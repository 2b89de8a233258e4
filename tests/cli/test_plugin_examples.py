"""Test that every built-in plugin has an example, and that its settings are accepted."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cenote.cli.plugin_examples import EXAMPLES
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind

LANGUAGE = {"kind", "path", "keep", "op", "out"}
"""Keys beside a plugin's settings that belong to the language."""


def settings_in(kind: PluginKind, written: Any) -> dict[str, Any]:
    """The plugin's own settings of an example."""
    match kind:
        case PluginKind.OPERATION:
            found = written[0]["params"]
        case PluginKind.SOURCE:
            (found,) = written["sources"].values()
        case PluginKind.SINK:
            found = written[0]["write"]
        case PluginKind.RENDERER:
            found = written["render"]
        case _:
            found = {}
    return {key: value for key, value in found.items() if kind is PluginKind.OPERATION or key not in LANGUAGE}


@pytest.mark.parametrize("kind", list(EXAMPLES))
def test_every_built_in_plugin_has_an_example(kind: PluginKind) -> None:
    assert set(EXAMPLES[kind]) == set(registry.built_in_names(kind))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in EXAMPLES for name in EXAMPLES[kind]])
def test_the_settings_of_an_example_are_accepted(kind: PluginKind, name: str) -> None:
    text = EXAMPLES[kind][name]
    assert name in text
    registry.load(kind, name).model_validate(settings_in(kind, yaml.safe_load(text)))
