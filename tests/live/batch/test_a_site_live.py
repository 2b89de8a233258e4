"""The file of a site decides, on real batch systems: where jobs go, which ports are used, where scratch files lie."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cenote.engine.messages import WorkerJoined

from .conftest import OWN_POOLS, BatchSystem, Workshop, numbers, pools_of
from .slurm_cluster import until

SITE = """
site: {{name: testsite}}
execution:
  backend: dask
  strategy: {strategy}
  config:
    interface: lo
    port: 41000-41499
    worker_interface: lo
    worker_ports: 41500-41999
    scratch: {scratch}
    poll_every: 2s
"""
HERE = range(41000, 41500)
THEIRS = range(41500, 42000)


def ports_in_logs(folder: Path, words: str) -> list[int]:
    logs = [file.read_text() for file in (folder / "debug" / "distributed" / "logs").iterdir() if file.is_file()]
    return [int(port) for log in logs for port in re.findall(rf"{words}: +tls://127\.0\.0\.1:(\d+)", log)]


def test_a_run_keeps_to_the_network_and_the_scratch_folder_of_the_site(
    workshop: Workshop, system: BatchSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = workshop.folder / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)  # jobs may run as another user
    site = workshop.folder / "site.yaml"
    site.write_text(SITE.format(strategy=system.strategy, scratch=scratch))
    monkeypatch.setenv("CENOTE_SITE", str(site))
    flow = workshop.folder / "flow.yaml"
    flow.write_text(re.sub(r" +(backend|config): .*\n", "", flow.read_text(), count=2))
    run = workshop.run()
    assert pools_of(run) == OWN_POOLS
    theirs = ports_in_logs(run.folder, "Start worker at")  # a worker may take the port of one that has left
    assert set(theirs) <= set(THEIRS)
    assert len(theirs) >= len(workshop.heard(WorkerJoined))
    (driver,) = set(ports_in_logs(run.folder, "Waiting to connect to"))
    assert driver in HERE
    assert numbers(run) == workshop.local_numbers()
    system.wait_until_empty()
    until(lambda: not list(scratch.iterdir()), "empty scratch folder")
