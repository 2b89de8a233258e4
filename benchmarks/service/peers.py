"""Do the benchmark's work with one of the others.

    python peers.py hyperqueue|ray|dask LATENCIES PROCESSES FUNCTIONS SLOTS

Prints one line of JSON with what was measured. Started by `run.py` with a Python that has these packages.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def stamp(file: Path) -> list[str]:
    """A command that writes down when it runs, by its own clock."""
    return ["/bin/sh", "-c", f"date +%s.%N > {file}"]


def same(number: int) -> int:
    return number


def hyperqueue(folder: Path, latencies: int, processes: int, functions: int, slots: int) -> dict[str, Any]:
    del functions  # its functions return nothing
    from hyperqueue import Job, LocalCluster
    from hyperqueue.cluster import WorkerConfig

    def run(job: Job) -> float:
        began = time.time()
        client.wait_for_jobs([client.submit(job)])
        return time.time() - began

    def new() -> Job:
        return Job(default_workdir=folder / "jobs")

    with LocalCluster(worker_config=WorkerConfig(cores=slots)) as cluster:
        client = cluster.client()
        (job := new()).program(["true"])
        run(job)
        waits = []
        for number in range(latencies):
            (job := new()).program(stamp(folder / f"{number}"))
            began = time.time()
            run(job)
            waits.append(float((folder / f"{number}").read_text()) - began)
        job = new()
        for _ in range(processes):
            job.program(["true"], task_dir=True)
        return {"waits": waits, "processes": run(job)}


def ray(folder: Path, latencies: int, processes: int, functions: int, slots: int) -> dict[str, Any]:
    import ray

    ray.init(num_cpus=slots, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    call, value = ray.remote(subprocess.call), ray.remote(same)
    ray.get([call.remote(["true"]) for _ in range(2 * slots)])
    waits = []
    for number in range(latencies):
        began = time.time()
        ray.get(call.remote(stamp(folder / f"{number}")))
        waits.append(float((folder / f"{number}").read_text()) - began)
    began = time.time()
    assert not any(ray.get([call.remote(["true"]) for _ in range(processes)]))
    took = time.time() - began
    began = time.time()
    assert ray.get([value.remote(number) for number in range(functions)]) == list(range(functions))
    made = time.time() - began
    ray.shutdown()
    return {"waits": waits, "processes": took, "functions": made}


def dask(folder: Path, latencies: int, processes: int, functions: int, slots: int) -> dict[str, Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=slots, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.gather([client.submit(subprocess.call, ["true"], pure=False) for _ in range(2 * slots)])
        waits = []
        for number in range(latencies):
            began = time.time()
            client.submit(subprocess.call, stamp(folder / f"{number}"), pure=False).result()
            waits.append(float((folder / f"{number}").read_text()) - began)
        began = time.time()
        made = [client.submit(subprocess.call, ["true"], pure=False) for _ in range(processes)]
        assert not any(client.gather(made))
        took = time.time() - began
        began = time.time()
        assert client.gather(client.map(same, range(functions), pure=False)) == list(range(functions))
        return {"waits": waits, "processes": took, "functions": time.time() - began}


if __name__ == "__main__":
    contender = {"hyperqueue": hyperqueue, "ray": ray, "dask": dask}[sys.argv[1]]
    with tempfile.TemporaryDirectory(prefix="cenote-peers-") as name:
        print(json.dumps(contender(Path(name), *map(int, sys.argv[2:]))))
