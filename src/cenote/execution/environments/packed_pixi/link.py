"""Link conda packages of a lock into a folder: `python -m cenote.execution.environments.packed_pixi.link REQUEST`.

A program of its own, because a process that uses py-rattler may crash when it ends in the usual way (0.28). It writes
the name of each package that is done, one a line; why it failed goes to its errors.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rattler import LockFile
from rattler.config import Config
from rattler.exceptions import ConfigError
from rattler.install import InstallerReporter, install


class _Report(InstallerReporter):
    """Says which packages are done. Several threads call it."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def on_link_start(self, operation: int, package_name: str) -> int:
        self._names[operation] = package_name
        return operation

    def on_link_complete(self, index: int) -> None:
        os.write(1, f"{self._names.get(index, '')}\n".encode())


async def link(request: Mapping[str, str]) -> None:
    """Link what the request says."""
    environment = LockFile.from_path(Path(request["lock"])).environment(request["environment"])
    assert environment is not None, request["environment"]
    platform = next(one for one in environment.platforms() if one.name == request["platform"])
    await install(
        environment.conda_repodata_records_for_platform(platform) or [],
        request["folder"],
        cache_dir=Path(request["cache"]),
        installed_packages=[],
        platform=platform.subdir,
        reporter=_Report(),  # type: ignore[abstract]  # all methods of the protocol have bodies
        alternative_target_prefix=request["placeholder"],
        config=_settings_of_pixi(),
    )


def _settings_of_pixi() -> Config | None:
    """Mirrors, proxies, certificates and log-ins that the user told pixi."""
    try:
        return Config.load_from_default_locations("pixi")
    except ConfigError:
        return None


def _main() -> int:
    try:
        asyncio.run(link(json.loads(sys.argv[1])))
    except Exception as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    code = _main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
