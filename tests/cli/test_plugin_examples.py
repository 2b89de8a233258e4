"""Test that every built-in plugin shows an example, and that its settings are accepted."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cenote.cli.views.plugin_pages import described
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind

LANGUAGE = {"kind", "path", "keep", "op", "out"}
"""Keys beside a plugin's settings that belong to the language."""

EVERY = [(kind, name) for kind in PluginKind for name in registry.built_in_names(kind)]


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
        case PluginKind.BACKEND:
            found = written["execution"].get("config", {})
        case PluginKind.STRATEGY:
            (pool,) = written["execution"]["pools"].values()
            found = pool.get("config", {})
        case _:
            found = {}
    return {key: value for key, value in found.items() if kind is PluginKind.OPERATION or key not in LANGUAGE}


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_built_in_plugin_has_an_example_whose_settings_are_accepted(kind: PluginKind, name: str) -> None:
    text = described(kind, name).example
    assert name in text or kind is PluginKind.PRODUCT
    registry.load(kind, name).model_validate(settings_in(kind, yaml.safe_load(text)))
