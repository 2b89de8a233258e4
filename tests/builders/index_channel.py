"""Index a conda channel and lock what some packages of it need: `python -m builders.index_channel CHANNEL LOCK NAME…`.

A program of its own, because a process that uses py-rattler may crash when it ends in the usual way (0.28).
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from rattler import Channel, LockChannel, LockFile, LockPlatform, solve
from rattler.index import index_fs


async def lock(channel: Path, file: Path, names: list[str]) -> None:
    """Each name is an environment with this package, and `default` has all of them."""
    await index_fs(channel, write_shards=False)
    platform = LockPlatform("linux-64")
    locked = LockFile([platform])
    for environment, wanted in {"default": names, **{name: [name] for name in names}}.items():
        records = await solve([Channel(channel.as_uri())], wanted, platforms=["linux-64", "noarch"])
        locked.set_channels(environment, [LockChannel(channel.as_uri())])
        for record in records:
            locked.add_conda_package(environment, platform, record)
    locked.to_path(file)


if __name__ == "__main__":
    asyncio.run(lock(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
    sys.stdout.flush()
    os._exit(0)
