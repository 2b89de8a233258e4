"""The operations of this benchmark: the first holds the run until all workers are there."""

import time
from pathlib import Path

import numpy as np

from cenote import Events, operation

_LIMIT = 600.0


@operation("custom.until_joined", reads=["MET_pt"], adds=["y"])
def until_joined(events: Events, *, journal: str, workers: int) -> dict[str, np.ndarray]:
    """Sleep until the journal has that many workers."""
    file, limit = Path(journal), time.monotonic() + _LIMIT
    while file.read_bytes().count(b'"WorkerJoined"') < workers:
        if time.monotonic() > limit:
            raise TimeoutError(f"not all of {workers} workers joined within {_LIMIT:g} s")
        time.sleep(0.05)
    return {"y": np.asarray(events["MET_pt"]) + 1}


@operation("custom.again", reads=["y"], adds=["y"])
def again(events: Events) -> dict[str, np.ndarray]:
    """In the next pool."""
    return {"y": np.asarray(events["y"]) + 1}


@operation("custom.total", reads=["y"], product="total", merge=sum)
def total(events: Events) -> float:
    """In the last pool."""
    return float(np.sum(events["y"]))
