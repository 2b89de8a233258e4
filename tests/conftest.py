"""How tests are spread over processes: file by file, and those that meet a real batch system in one process for each.

No test reads the file of a site that the machine may have or keeps results where others find them, none sees the batch
systems that may be installed on it, and what tests start can be interrupted.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadGroupScheduling

BATCH_SYSTEMS = "tests/live/batch"
ON_BATCH_SYSTEMS = ("[slurm]", "[htcondor]")
"""How names of tests end that belong to the group of a batch system."""
CLIENTS = re.compile(r"sbatch|squeue|scancel|scontrol|sinfo|sacct|salloc|srun|sbcast|condor_\w+")
"""Commands of batch systems."""


class FilesAndGroups(LoadGroupScheduling):  # type: ignore[misc]  # xdist publishes no types for it
    """Gives whole files to processes, but tests of an `xdist_group` to one of them, from whichever files they are."""

    def _split_scope(self, nodeid: str) -> str:
        group = str(super()._split_scope(nodeid))
        if group == nodeid and nodeid.endswith(ON_BATCH_SYSTEMS):
            raise RuntimeError(f"{nodeid} has no group: this pytest-xdist does not write them into names of tests")
        return nodeid.split("::", 1)[0] if group == nodeid else group


def pytest_configure(config: pytest.Config) -> None:
    """For this process and those that tests start."""
    examples = 1000 if os.environ.get("CENOTE_DEEP_TESTS") else 60
    slow = [HealthCheck.too_slow]
    settings.register_profile("busy machine", max_examples=examples, deadline=None, suppress_health_check=slow)
    settings.load_profile("busy machine")
    os.environ["CENOTE_SITE"] = "none"
    os.environ["CENOTE_STORE"] = "run"
    os.environ["PATH"] = path_without_clients(config)
    os.environ.pop("COLUMNS", None)  # of whoever's terminal began the tests
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells have it in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def path_without_clients(config: pytest.Config) -> str:
    """The folders of programs; one that holds commands of a batch system is replaced by links to all the others."""
    folders = []
    for folder in os.environ["PATH"].split(os.pathsep):
        programs = os.listdir(folder) if os.path.isdir(folder) else []  # noqa: PTH112, PTH208  # names are enough
        if any(CLIENTS.fullmatch(name) for name in programs):
            links = Path(tempfile.mkdtemp(prefix="cenote-path-"))
            config.add_cleanup(lambda links=links: shutil.rmtree(links, ignore_errors=True))
            for name in programs:
                if not CLIENTS.fullmatch(name):
                    (links / name).symlink_to(Path(folder, name))
            folders.append(str(links))
        else:
            folders.append(folder)
    return os.pathsep.join(folders)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Batch systems take longest and mostly wait, so they begin."""
    batch = Path(__file__).parent.parent / BATCH_SYSTEMS
    items.sort(key=lambda item: not item.path.is_relative_to(batch))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndGroups:
    """For `pytest -n 5 --dist loadgroup`."""
    return FilesAndGroups(config, log)
