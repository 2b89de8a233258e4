"""Keep private copies of the files that workers need, for as long as the run lasts."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from cenote import storage
from cenote.launch import Launch, SentFile


class SentFiles:
    """Copies of files whose permissions matter, in a folder that only the user can open; others stay where they are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, launch: Launch) -> Launch:
        """The same launch, with copies."""
        return replace(launch, files=tuple(self._kept(file, launch.pool) for file in launch.files))

    def _kept(self, file: SentFile, pool: str) -> SentFile:
        if file.mode is None:
            return file
        copy = self._folder / (pool or "all pools") / file.name
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder.chmod(0o700)
        with storage.appearing(copy) as half:
            half.touch(file.mode)  # before there is anything to read in it
            half.write_bytes(file.source.read_bytes())
        return replace(file, source=copy)

    def remove(self) -> None:
        """Leave none of them."""
        shutil.rmtree(self._folder, ignore_errors=True)
