"""Apply the contract of its kind to every built-in plugin that has no test file of its own beside this one.

`test_environment_packed_pixi.py` would be the one of the environment `packed-pixi`, which needs something to pack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.testing.contracts import (
    BackendContract,
    BatchScript,
    CredentialContract,
    EnvironmentContract,
    ModifierContract,
    OperationContract,
    PluginContract,
    RendererContract,
    SinkContract,
    StrategyContract,
)

CONTRACTS: dict[PluginKind, type[PluginContract]] = {
    PluginKind.OPERATION: OperationContract,
    PluginKind.SINK: SinkContract,
    PluginKind.RENDERER: RendererContract,
    PluginKind.MODIFIER: ModifierContract,
    PluginKind.BACKEND: BackendContract,
    PluginKind.STRATEGY: StrategyContract,
    PluginKind.ENVIRONMENT: EnvironmentContract,
    PluginKind.CREDENTIAL: CredentialContract,
}
ELSEWHERE = {PluginKind.SOURCE, PluginKind.PRODUCT}
"""Kinds that need code for their tests: files to read, values to merge."""


def data_of(kind: PluginKind, name: str) -> dict[str, Any]:
    """What the contract asks for, from the file of the kind; a sink is read by the source of the same name."""
    file = Path(__file__).parent / "cases" / f"{kind.value}.yaml"
    written = yaml.safe_load(file.read_text()).get(name) if file.is_file() else None
    match kind:
        case PluginKind.STRATEGY:
            cases = written.pop("cases") if written else [{}]
            return {"batch": BatchScript(**written) if written else None, "cases": cases}
        case PluginKind.SINK:
            return {"source": registry.load(PluginKind.SOURCE, name), "cases": written or ()}
        case PluginKind.BACKEND:
            return {"name": name}
    return {"cases": written or ()}


for kind, contract in CONTRACTS.items():
    for name in registry.built_in_names(kind):
        plain = f"{kind.value}_{name.replace('.', '_').replace('-', '_')}"
        if Path(__file__).with_name(f"test_{plain}.py").exists():
            continue
        title = f"Test_{plain}"
        attributes = {"__module__": __name__, "plugin": registry.load(kind, name), **data_of(kind, name)}
        globals()[title] = type(title, (contract,), attributes)


def test_every_kind_is_checked() -> None:
    assert {*CONTRACTS, *ELSEWHERE} == set(PluginKind)
