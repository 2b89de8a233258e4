"""Keep private copies of the files that workers need, for as long as the run lasts, and renew credentials in time."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cenote import storage
from cenote.credentials.interface import Credential
from cenote.launch import Launch, SentFile

_LOOK_EVERY = 30.0
"""Seconds between two looks at the credentials."""
_RENEW_BEFORE = 3600.0
"""Seconds before its end at which a credential is to be renewed."""


class SentFiles:
    """Copies of files whose permissions matter, in a folder that only the user can open; others stay where they are."""

    def __init__(self, folder: Path, credentials: Sequence[Credential] = ()) -> None:
        self._folder, self._credentials = folder, credentials
        self._copies: dict[Path, SentFile] = {}
        """Copy → what it is a copy of."""
        self._over = threading.Event()

    def keep(self, launch: Launch) -> Launch:
        """The same launch, with copies. From now on they follow their originals."""
        if self._credentials and not self._copies:
            threading.Thread(target=self._follow, daemon=True).start()
        return replace(launch, files=tuple(self._kept(file, launch.pool) for file in launch.files))

    def _kept(self, file: SentFile, pool: str) -> SentFile:
        if file.mode is None:
            return file
        copy = self._folder / (pool or "all pools") / file.name
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder.chmod(0o700)
        _copy(file, copy)
        self._copies[copy] = file
        return replace(file, source=copy)

    def _follow(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            for credential in self._credentials:
                with suppress(Exception):  # somebody's code, or its network: there is time to try again
                    if (credential.expires() or float("inf")) - time.time() < _RENEW_BEFORE:
                        credential.renew()
            self.refresh()

    def refresh(self) -> None:
        """Replace the copies whose originals have changed, each in one piece: workers read the old or the new one."""
        for copy, file in list(self._copies.items()):
            with suppress(OSError):  # it is being replaced just now
                if file.source.stat().st_mtime_ns > copy.stat().st_mtime_ns:
                    _copy(file, copy)

    def remove(self) -> None:
        """Leave none of them."""
        self._over.set()
        if self._copies:
            shutil.rmtree(self._folder, ignore_errors=True)


def _copy(file: SentFile, copy: Path) -> None:
    with storage.appearing(copy) as half:
        half.touch(file.mode or 0o600)  # before there is anything to read in it
        half.write_bytes(file.source.read_bytes())
