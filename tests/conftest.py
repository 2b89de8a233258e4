"""How tests are spread over processes: file by file, and all that meet a real batch system in one process, first.

No test reads the file of a site that the machine may have, and what tests start can be interrupted.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

BATCH_SYSTEMS = "tests/live/batch"


class BatchSystemsTogether(LoadFileScheduling):  # type: ignore[misc]  # xdist publishes no types for it
    """Gives whole files to processes; one process gets all files about batch systems, which it starts only once."""

    def _split_scope(self, nodeid: str) -> str:
        return BATCH_SYSTEMS if nodeid.startswith(BATCH_SYSTEMS) else str(super()._split_scope(nodeid))


def pytest_configure() -> None:
    """For this process and those that tests start."""
    os.environ["CENOTE_SITE"] = "none"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells have it in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Batch systems take longest and mostly wait, so they begin."""
    batch = Path(__file__).parent.parent / BATCH_SYSTEMS
    items.sort(key=lambda item: not item.path.is_relative_to(batch))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> BatchSystemsTogether:
    """For `pytest -n 2`."""
    return BatchSystemsTogether(config, log)
