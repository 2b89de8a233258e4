"""Measure what it costs until the local Dask workers of three pools have joined: CPU and wall, with bare Dask beside.

python benchmarks/joining/run.py [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rounds import Contender, Machine, Used, arguments, finish, flow_command, generated, middle, ratio, take_turns

HERE = Path(__file__).parent
BARE = "bare Dask"
OURS = "cenote"
PARTITIONS = 8
"""Of one event each: a pool has no more workers than tasks."""


def bare(workers: int) -> Contender:
    """A cluster of Dask alone, with one task."""

    def joined(folder: Path, _: Used) -> dict[str, float]:
        seconds = json.loads((folder / "bare.json").read_text())
        return {"joined": seconds["import"] + seconds["start"]}

    script = str(HERE.parent / "overhead" / "bare.py")
    return Contender(
        BARE, lambda folder: [sys.executable, script, "1", str(workers), str(folder / "bare.json")], of_run=joined
    )


def ours(pools: dict[str, int], file: Path, cenote: str) -> Contender:
    """A run whose first task waits for all workers."""
    workers = sum(pools.values())

    def command(folder: Path) -> list[str]:
        return flow_command(_flow(file, pools, folder / "out" / "journal.jsonl"), folder, cenote=cenote)

    def joined(folder: Path, used: Used) -> dict[str, float]:
        events = [json.loads(line) for line in (folder / "out" / "journal.jsonl").read_text().splitlines()]
        times = [event["at"] for event in events if event["type"] == "WorkerJoined"]
        if len(times) < workers:
            raise SystemExit(f"{len(times)} of {workers} workers joined")
        return {"joined": max(times) - used.began}

    return Contender(OURS, command, of_run=joined)


def _flow(file: Path, pools: dict[str, int], journal: Path) -> dict[str, Any]:
    waiting = {"journal": str(journal), "workers": sum(pools.values())}
    operations = [("custom.until_joined", waiting), *[("custom.again", {})] * (len(pools) - 2), ("custom.total", {})]
    stages = [
        {"id": f"Stage{number}", "op": op, "params": params, "execution": {"require": pool}}
        for number, (pool, (op, params)) in enumerate(zip(pools, operations, strict=True))
    ]
    return {
        "plugins": [str(HERE / "ops.py")],
        "data": {"datasets": [{"name": "d", "files": [str(file)]}]},
        "sources": {"events": {"kind": "root_tree", "chunk_size": 1}},
        "analysis": {"stages": stages},
        "execution": {"backend": "dask", "pools": {name: {"workers": workers} for name, workers in pools.items()}},
    }


def main() -> None:
    """Start them in turns and print what it took."""
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--workers", type=int, nargs=3, default=[4, 2, 1], help="of each pool")
    chosen = parser.parse_args()
    pools = dict(zip(("default", "high_memory", "gpu"), chosen.workers, strict=True))
    file = generated(chosen.data, files=1, events=PARTITIONS, basket=PARTITIONS, kind="few")[0]
    contenders = [bare(sum(chosen.workers)), ours(pools, file, chosen.cenote)]
    machine = Machine.now()
    turns = take_turns(contenders, rounds=chosen.rounds)
    figures: dict[str, float | str] = {}
    for name, one in turns.items():
        if not one.cpu:
            print(f"{name:10} not measured: {one.problem}")
            continue
        figures |= {f"{name}: CPU": f"{middle(one):.1f} s", f"{name}: wall": f"{middle(one, 'joined'):.1f} s"}
        said = f"{figures[f'{name}: CPU']} CPU of the whole run, all joined after {figures[f'{name}: wall']}"
        print(f"{name:10} {said}, {max(one.memory) / 1e6:.0f} MB in the largest process")
    if turns[BARE].cpu and turns[OURS].cpu:
        figures["CPU × bare"] = ratio(turns[OURS], turns[BARE])
        print(f"CPU × bare Dask: {figures['CPU × bare']:.2f}")
    finish(machine, figures, turns, json_file=chosen.json)


if __name__ == "__main__":
    main()
