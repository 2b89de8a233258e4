"""The floor: the same number of trivial tasks on Dask alone, with the resources that Cenote asks for.

    python bare.py TASKS WORKERS RESULT

The scheduler runs in this process, as with Cenote. The result holds seconds: `import` and `start` until the workers are
there, `first` for one task, and `tasks` for all of them with their results gathered.
"""

import json
import sys
import time
from pathlib import Path

BEGAN = time.perf_counter()

from distributed import Client, LocalCluster  # noqa: E402

POOL = {"resource.default": 1}


def count(number: int) -> int:
    """As little as a task can do and still have a result."""
    return number + 1


def main() -> None:
    """Run and write down how long it took."""
    tasks, workers, result = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    ready = time.perf_counter()
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, resources=POOL, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        started = time.perf_counter()
        assert client.submit(count, -1, resources=POOL, pure=False).result() == 0
        first = time.perf_counter()
        futures = client.map(count, range(tasks), resources=POOL, pure=False)
        assert sum(client.gather(futures)) == tasks * (tasks + 1) // 2
        done = time.perf_counter()
    seconds = {"import": ready - BEGAN, "start": started - ready, "first": first - started, "tasks": done - first}
    result.write_text(json.dumps(seconds), encoding="utf-8")


if __name__ == "__main__":
    main()
