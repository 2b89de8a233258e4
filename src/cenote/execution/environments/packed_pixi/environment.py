"""Pack an environment of pixi: its manifest, its lock, or the folder that pixi installed."""

from __future__ import annotations

import hashlib
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import model_validator

from cenote.common import errors
from cenote.common.errors import CenoteError, Problem
from cenote.common.values import dataclass
from cenote.execution.environments.packed_conda import PackedConda
from cenote.execution.environments.packed_pixi.install import install, missing_packages
from cenote.execution.environments.packed_pixi.lock import LockedEnvironment, LockedSource, read_environment
from cenote.execution.environments.support.packed import PackedEnvironment
from cenote.execution.launch import Launch
from cenote.execution.packing.archive import Progress
from cenote.execution.packing.code import CodeProject, editable_projects
from cenote.execution.packing.prefixes.library_paths import FilledPrefix
from cenote.execution.packing.software import normal_name, this_platform

# Read what pixi.toml says about activation: scripts and variables for those who use an environment.


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
        raise errors.error(errors.BAD_VALUE, f"{manifest} is not a pixi manifest: it has no `[tool.pixi]`")
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


# Find the code of packages that a lock names by their folder: it travels beside the environment.


_COMPILED = ("CMakeLists.txt", "meson.build", "Cargo.toml", "setup.py")
"""What tells that there is more to it than Python files; `setup.py` may."""


def projects_of(locked: LockedEnvironment) -> list[CodeProject]:
    """What is edited here is taken as it is installed, the rest from its sources. Raises where that cannot be done."""
    edited = {project.name for project in editable_projects(sys.path)}
    return [_project(locked, one) for one in locked.sources if normal_name(one.name) not in edited]


def _project(locked: LockedEnvironment, source: LockedSource) -> CodeProject:
    module = normal_name(source.name).replace("-", "_")
    places = [source.folder / "src" / module, source.folder / module]
    found = next((place for place in places if any(place.glob("*.py"))), None)
    if found is None or any((source.folder / name).exists() for name in _COMPILED):
        raise errors.error(
            errors.BAD_ENVIRONMENT,
            f"'{source.name}', which {locked.lock} takes from {source.folder}, is not Python code that can be sent"
            if found
            else f"'{source.name}', which {locked.lock} takes from {source.folder}, has no {Path('src', module)} there",
            hint="`pip install -e` it where cenote is installed, or pack what pixi installed:"
            f" `prefix: .pixi/envs/{locked.name}`",
        )
    return CodeProject(normal_name(source.name), source.version or "0", (found,))


CURRENT = "current"
_OF_LOCKS = ("manifest", "lock", "environment", "platform")
_FORM = "1"
"""Changes when the same lock gives other archives than before."""


class PackedPixi(PackedConda):
    """An environment of pixi, packed from its lock and sent to the nodes; pixi itself is not needed.

    Every file is checked against the hash in the lock. Packages that pixi fetched before are not fetched again.
    """

    example: ClassVar[str] = """
    execution:
      environment: {type: packed-pixi, manifest: pixi.toml, environment: default}
    """
    spelt_out: ClassVar = {
        "mode": {"enum": ["prefix", "self-extracting"], "description": "FAST-HEP's: `prefix` means `prefix: current`."},
        "source": {"enum": [CURRENT], "description": "FAST-HEP's, with `mode: prefix`."},
        "archive_path": {"type": "string", "description": "FAST-HEP's; archives are kept in the user's cache."},
        "worker_env_dir": {"type": "string", "description": "FAST-HEP's; `scratch` says where nodes unpack."},
    }

    manifest: str | None = None
    """`pixi.toml`, or `pyproject.toml` with `[tool.pixi]`; without it, the one beside the workflow or above it."""
    lock: str | None = None
    """The lock, of version 6 or 7; without it, `pixi.lock` beside the manifest."""
    environment: str | None = None
    """Its name; without it, `default`."""
    platform: str | None = None
    """As the lock names it; without it, that of this machine. Only those that run here can be packed here."""
    prefix: str | None = None
    """Instead of a lock: a folder with the environment as pixi installed it, such as `.pixi/envs/default`, or
    `current` for the one that runs this command."""

    @model_validator(mode="before")
    @classmethod
    def _fast_hep(cls, written: Any) -> Any:  # Any: whatever the YAML holds
        return _as_ours(written) if isinstance(written, Mapping) else written

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        named = [key for key in _OF_LOCKS if getattr(self, key) is not None]
        if self.prefix is not None and named:
            raise ValueError(f"`prefix` is an environment as it was installed: it has no `{named[0]}`")
        return self

    def check(self) -> Iterable[Problem]:
        """Everything that can be told without fetching anything."""
        if self.prefix is not None:
            yield from super().check()
            return
        yield from PackedEnvironment.check(self)
        yield from missing_packages()
        try:
            projects_of(self._locked())
            self._manifest_activation()
        except CenoteError as problem:
            yield from problem.problems

    def complete(self, launch: Launch) -> Launch:
        """With the folder of the project, which activation may name, as pixi has it."""
        root = {} if self.prefix is not None else {"PIXI_PROJECT_ROOT": str(self._manifest().parent)}
        return super().complete(launch).with_variables(**root)

    def _key(self) -> str:
        if self.prefix is not None:
            return super()._key()
        locked = self._locked()
        added = [f"{name}\0{text}" for name, text in self._manifest_activation().files().items()]
        facts = [_FORM, locked.digest, locked.name, locked.platform, *added]
        return hashlib.sha256("\0".join(facts).encode()).hexdigest()

    def _fill(self, folder: Path, progress: Progress) -> FilledPrefix:
        if self.prefix is not None:
            return super()._fill(folder, progress)
        locked = self._locked()
        real = folder.resolve()
        install(locked, real, progress)
        for name, text in self._manifest_activation().files().items():
            (real / name).parent.mkdir(parents=True, exist_ok=True)
            (real / name).write_text(text)
        return FilledPrefix(
            real,
            platform=locked.subdir,
            exclude=self.exclude,
            facts=(("lock_sha256", locked.digest), ("environment", locked.name), ("platform", locked.platform)),
        )

    def _edited(self) -> Iterable[CodeProject]:
        return super()._edited() if self.prefix is not None else projects_of(self._locked())

    def _source(self) -> str:
        return super()._source() if self.prefix is not None else str(self._lock())

    def _kind(self) -> str:
        return "packed-pixi"

    def _prefix(self) -> Path | None:
        if self.prefix != CURRENT:
            return super()._prefix()
        active = os.environ.get("CONDA_PREFIX")
        return Path(active) if active and not (Path(sys.prefix) / "conda-meta").is_dir() else Path(sys.prefix)

    def _manifest(self) -> Path:
        if self.manifest is not None:
            named = self.absolute_path(self.manifest)
            if not named.is_file():
                raise errors.error(errors.MISSING_FILE, f"there is no manifest {named}")
            return named
        found = find_manifest(self._folder.absolute())
        if found is None:
            raise errors.error(
                errors.MISSING_FILE,
                f"there is neither a pixi.toml nor a pyproject.toml with [tool.pixi] in {self._folder.absolute()}",
                hint="name the manifest by the environment's `manifest`, or a folder by its `prefix`",
            )
        return found

    def _lock(self) -> Path:
        lock = self.absolute_path(self.lock) if self.lock is not None else self._manifest().with_name("pixi.lock")
        if not lock.is_file():
            raise errors.error(errors.MISSING_FILE, f"there is no lock {lock}", hint="`pixi lock` writes it")
        return lock

    @property
    def _name(self) -> str:
        return self.environment or "default"

    def _locked(self) -> LockedEnvironment:
        manifest, lock, platform = self._manifest(), self._lock(), self.platform or this_platform()
        locked = read_environment(lock, environment=self._name, platform=platform, defined=environments_of(manifest))
        if locked.subdir != this_platform():
            what = f"an environment for {locked.subdir} cannot be packed on this machine, which is {this_platform()}"
            raise errors.error(errors.BAD_VALUE, f"{lock}: {what}", hint="pack on a machine of that sort")
        return locked

    def _manifest_activation(self) -> Activation:
        return read_activation(self._manifest(), environment=self._name, subdir=this_platform())


def _as_ours(written: Mapping[str, Any]) -> dict[str, Any]:  # Any: whatever the YAML holds
    """With FAST-HEP's keys as ours."""
    ours = {key: value for key, value in written.items() if key not in PackedPixi.spelt_out}
    mode = written.get("mode", "self-extracting")
    if mode not in ("prefix", "self-extracting"):
        raise ValueError(f"`mode` should be `prefix` or `self-extracting`, not `{mode}`")
    if mode == "prefix":
        if written.get("source", CURRENT) != CURRENT:
            raise ValueError("`source` should be `current`; another folder is named by `prefix`")
        ours.setdefault("prefix", CURRENT)
    return ours
