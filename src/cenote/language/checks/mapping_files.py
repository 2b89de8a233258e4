"""Read settings of a stage that stand in a file of their own: `aliases: names.yaml`."""

from __future__ import annotations

from pathlib import Path

from cenote import errors, storage
from cenote.errors import CenoteError
from cenote.language.checks.findings import Findings
from cenote.language.yaml.source import Located, read_yaml
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind

ENDINGS = (".yaml", ".yml", ".json")


def with_mapping_files(stage: Located, folder: Path, findings: Findings) -> Located:
    """The stage with what such files hold in their place; what is wrong in one is found at its place in that file."""
    params, op = stage.get("params"), stage.get("op")
    if params is None or op is None or op.text is None:
        return stage
    named = {key: value for key, value in params.mapping.items() if (value.text or "").endswith(ENDINGS)}
    taken = {key: value for key, value in named.items() if key in _from_files(op.text)}
    if not taken:
        return stage
    read = {key: _content(value, folder, findings) for key, value in taken.items()}
    return stage.holding({**stage.mapping, "params": params.holding({**params.mapping, **read})})


def _from_files(operation: str) -> tuple[str, ...]:
    """The settings of an operation that may stand in a file."""
    try:
        found: tuple[str, ...] = registry.load(PluginKind.OPERATION, operation).from_files
    except (CenoteError, ImportError):
        return ()  # whoever checks the operation says so
    return found


def _content(name: Located, folder: Path, findings: Findings) -> Located:
    beside, here = (place / storage.expanded(name.text or "") for place in (folder, Path()))
    path = here if not storage.is_file(beside) and storage.is_file(here) else beside
    if not storage.is_file(path):
        findings.report(errors.MISSING_FILE, f"there is no file '{name.text}'", name, hint=f"looked in {path.parent}")
        return name.holding({})
    parsed = read_yaml(path, layer=path.name)
    findings.problems += parsed.problems
    return parsed.root if parsed.root is not None else name.holding({})
