"""Say where the results of a run are kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cenote import storage
from cenote.cache_file import cache_folder
from cenote.language.execution import StoreSettings
from cenote.language.schema.forms import IN_RUN
from cenote.runs.folder import RunFolder
from cenote.runtime.result_store.colleagues import SharedStore, is_shared, own_part
from cenote.runtime.result_store.folders import ResultFolder
from cenote.runtime.result_store.store import ResultStore, Warn
from cenote.sources.support.files import is_remote

if TYPE_CHECKING:
    from cenote.runtime.result_store.remote import RemoteStore

VARIABLE = "CENOTE_STORE"
_NAME = "results"
"""In the user's cache."""


def store_place(path: str | None, run: RunFolder, warn: Warn) -> Path | RemoteStore:
    """The store of a run: as the workflow says, else the variable, else in the user's cache."""
    if (path or os.environ.get(VARIABLE)) == IN_RUN:
        return run.results
    return place_of(path, warn) if path else usual_place(warn)


def usual_place(warn: Warn) -> Path | RemoteStore:
    """Of runs that say nothing else."""
    chosen = os.environ.get(VARIABLE)
    return place_of(chosen, warn) if chosen and chosen != IN_RUN else cache_folder() / _NAME


def place_of(path: str, warn: Warn) -> Path | RemoteStore:
    """The folder, or what is at the address."""
    if not is_remote(path):
        return storage.expanded(path).absolute()
    from cenote.runtime.result_store.remote import RemoteStore  # hardly any run needs it

    return RemoteStore(path, warn)


def open_store(settings: StoreSettings, run: RunFolder, warn: Warn) -> ResultStore:
    """The store that a run uses; `warn` is told what is wrong with it."""
    limit, folder = settings.limit, cache_folder() / _NAME
    try:
        place = store_place(settings.path, run, warn)
        if not isinstance(place, Path):
            return ResultStore(place.own, limit=limit, warn=warn, others=place.packs, share=place.send)
        if is_shared(place):
            others = SharedStore(place).packs_of_others
            return ResultStore(own_part(place), limit=limit, warn=warn, others=others)
        folder = place
    except OSError as problem:
        where = settings.path or os.environ.get(VARIABLE)
        warn(f"{where} is not used, as there is no key to sign results with: {problem}")
    return ResultStore(private_part(folder), limit=limit, warn=warn)


def private_part(folder: Path) -> ResultFolder:
    """Of a store that nobody shares."""
    return ResultFolder(folder / "own")
