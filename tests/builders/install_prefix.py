"""Install an environment of a lock into a prefix, as conda would: `python -m builders.install_prefix LOCK NAME PREFIX`.

A program of its own, because a process that uses py-rattler may crash when it ends in the usual way (0.28).
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from rattler import LockFile, install


async def fill(lock: Path, name: str, prefix: Path) -> None:
    """All its conda packages."""
    locked = LockFile.from_path(lock)
    environment = locked.environment(name)
    assert environment is not None, name
    records = environment.conda_repodata_records_for_platform(locked.platforms()[0])
    assert records
    await install(records, prefix, cache_dir=prefix.parent / "packages", show_progress=False)


if __name__ == "__main__":
    asyncio.run(fill(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
    sys.stdout.flush()
    os._exit(0)
