"""Apply the contract of its kind to every built-in plugin that needs no data of its own for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.testing.contracts import (
    BackendContract,
    ModifierContract,
    OperationContract,
    PluginContract,
    RendererContract,
    SinkContract,
)

CONTRACTS: dict[PluginKind, type[PluginContract]] = {
    PluginKind.OPERATION: OperationContract,
    PluginKind.SINK: SinkContract,
    PluginKind.RENDERER: RendererContract,
    PluginKind.MODIFIER: ModifierContract,
    PluginKind.BACKEND: BackendContract,
}


def data_of(kind: PluginKind, name: str) -> dict[str, Any]:
    """Settings to try, and what the contract asks for: a sink is read by the source of the same name."""
    file = Path(__file__).parent / "cases" / f"{kind.value}.yaml"
    cases = yaml.safe_load(file.read_text()) if file.is_file() else {}
    found: dict[str, Any] = {"plugin": registry.load(kind, name), "cases": cases.get(name, ())}
    if kind is PluginKind.SINK:
        found["source"] = registry.load(PluginKind.SOURCE, name)
    return {**found, "name": name} if kind is PluginKind.BACKEND else found


for kind, contract in CONTRACTS.items():
    for name in registry.built_in_names(kind):
        title = f"Test_{kind.value}_{name.replace('.', '_')}"
        globals()[title] = type(title, (contract,), {"__module__": __name__, **data_of(kind, name)})
