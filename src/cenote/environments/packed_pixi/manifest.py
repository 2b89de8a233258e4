"""Read what pixi.toml says about activation: scripts and variables for those who use an environment."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cenote import errors
from cenote.values import dataclass

NAMES = ("pixi.toml", "pyproject.toml")
_SYSTEMS = {"linux": ("linux", "unix"), "osx": ("osx", "unix"), "win": ("win",)}
_Table = Mapping[str, Any]  # Any: TOML as people write it


@dataclass(frozen=True)
class Activation:
    """What a manifest adds to the activation of an environment."""

    scripts: tuple[Path, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    """Values may name other variables, as `$HOME`."""

    def files(self) -> dict[str, str]:
        """Name in a prefix → content, for those who activate it: variables before scripts, scripts of packages first.

        Scripts are copied: nodes may not see them where they are.
        """
        exports = "".join(f"export {name}={_quoted(value)}\n" for name, value in self.variables)
        scripts = {f"zzzz_pixi_{number:02}_{one.name}": one.read_text() for number, one in enumerate(self.scripts)}
        named = {"00_pixi.sh": exports, **{f"{Path(name).stem}.sh": text for name, text in scripts.items()}}
        return {f"etc/conda/activate.d/{name}": text for name, text in named.items()}


def find_manifest(folder: Path) -> Path | None:
    """Where pixi would look: in the folder, then in those above it."""
    for place in (folder, *folder.parents):
        for name in NAMES:
            if (place / name).is_file() and _workspace(place / name) is not None:
                return place / name
    return None


def read_activation(manifest: Path, *, environment: str, subdir: str) -> Activation:
    """Of one environment on one platform. Raises where a script is missing."""
    table = _workspace(manifest)
    if table is None:
        raise errors.error(errors.BAD_VALUE, f"{manifest} is no manifest of pixi: it has no `[tool.pixi]`")
    scripts: list[Path] = []
    variables: dict[str, str] = {}
    for feature in _features(table, environment):
        parts = list(_activations(feature, subdir))
        named: list[str] = next((part["scripts"] for part in parts if "scripts" in part), [])
        scripts += [manifest.parent / str(script) for script in named]
        for part in parts:
            variables = {**{name: str(value) for name, value in part.get("env", {}).items()}, **variables}
    scripts = [script for script in scripts if script.suffix not in (".bat", ".cmd", ".ps1")]
    for script in scripts:
        if not script.is_file():
            what = f"there is no {script}, an activation script of {manifest}"
            raise errors.error(errors.MISSING_FILE, what)
    return Activation(tuple(scripts), (("PIXI_ENVIRONMENT_NAME", environment), *variables.items()))


def environments_of(manifest: Path) -> tuple[str, ...]:
    """Names of the environments that it defines."""
    return ("default", *(_workspace(manifest) or {}).get("environments", {}))


def _workspace(manifest: Path) -> _Table | None:
    """The tables of pixi; None where a `pyproject.toml` has none."""
    try:
        table: _Table = tomllib.loads(manifest.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise errors.error(errors.BAD_VALUE, f"{manifest} is not TOML: {problem}") from problem
    if manifest.name == "pyproject.toml":
        found: _Table | None = table.get("tool", {}).get("pixi")
        return found
    return table


def _features(table: _Table, environment: str) -> Iterator[_Table]:
    """Those of an environment, first the one that wins. What stands outside of features is the last of them."""
    written = table.get("environments", {}).get(environment, [])
    spec = written if isinstance(written, dict) else {"features": written}
    for name in spec.get("features", ()):
        yield table.get("feature", {}).get(name, {})
    if not spec.get("no-default-feature", False):
        yield table


def _activations(feature: _Table, subdir: str) -> Iterator[_Table]:
    """The most special first: those of `linux-64`, of `linux`, of `unix`, of all."""
    targets = feature.get("target", {})
    for name in (subdir, *_SYSTEMS.get(subdir.partition("-")[0], ())):
        yield targets.get(name, {}).get("activation", {})
    yield feature.get("activation", {})


def _quoted(value: str) -> str:
    """In double quotes, where a shell still fills in variables, as pixi has it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`").replace("$(", "\\$(")
    return f'"{escaped}"'
