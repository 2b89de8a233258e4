"""Pack an environment of pixi: from the lock, without pixi, or from the folder that pixi installed."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import model_validator

from cenote import errors
from cenote.environments.packed_conda import PackedConda
from cenote.environments.packed_pixi.install import install, missing_packages
from cenote.environments.packed_pixi.lock import LockedEnvironment, read_environment
from cenote.environments.packed_pixi.manifest import Activation, environments_of, find_manifest, read_activation
from cenote.environments.packed_pixi.projects import projects_of
from cenote.environments.support.packed import PackedEnvironment
from cenote.errors import CenoteError, Problem
from cenote.launch import Launch
from cenote.packing.code import CodeProject
from cenote.packing.prefixes.prefix import FilledPrefix
from cenote.packing.progress import Progress
from cenote.packing.software import this_platform

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
