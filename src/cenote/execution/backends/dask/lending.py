"""A worker that has the events of others on its machine lent to it, and those of other machines sent as Dask does."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from distributed import Status

from cenote.execution.backends.dask import private
from cenote.execution.backends.dask.doors import SecuredWorker
from cenote.execution.backends.dask.parcels import LENDS_FROM, LentFile, Parcel, borrowed

_LEND = "cenote_lend"
"""A question to another worker: where it has these events for workers of its machine."""

_SMALL = 16_000_000
"""Bytes that are written into memory in less time than it takes a busy machine to change threads."""


class LendingWorker(SecuredWorker):
    """Both sides of lending. Whatever goes wrong with it, the events are sent instead."""

    def __init__(self, *where: Any, **options: Any) -> None:  # Any: as Dask passes it on
        super().__init__(*where, **options)
        private.answer(self, _LEND, self._lend)

    async def _lend(self, keys: Collection[str]) -> dict[str, tuple[int, int, str]]:
        """Where it has the results of bundles; those that it cannot lend are left out.

        None at all while it is paused, which may be for want of memory.
        """
        if self.status == Status.paused:
            return {}
        parcels = {key: self.data[key] for key in keys if key in self.data}
        found = {key: await self._lent(parcel) for key, parcel in parcels.items() if isinstance(parcel, Parcel)}
        return {key: (file.process, file.descriptor, file.name) for key, file in found.items() if file}

    async def _lent(self, parcel: Parcel) -> LentFile | None:
        return parcel.lend() if parcel.nbytes < _SMALL else await private.beside_the_loop(parcel.lend)

    async def fetch(self, worker: str, keys: Collection[str], nbytes: int) -> dict[str, object]:
        """Borrow what is worth it, from workers of this machine."""
        found: dict[str, object] = {}
        if nbytes < LENDS_FROM or not private.on_one_machine(worker, self.address):
            return found
        with suppress(Exception):  # if the other one is gone, Dask finds out, and knows what to do
            lent = await private.ask_worker(self, worker, _LEND, keys=list(keys))
            for key, place in lent.items():
                parcel = borrowed(LentFile(*place))
                if parcel is not None:
                    found[key] = parcel
        return found
