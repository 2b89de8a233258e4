"""While a task computes, the bytes that the next one reads are fetched; each is asked for once."""

from __future__ import annotations

from pathlib import Path

import cenote
from builders.file_servers import FileServer
from cenote.analysis.sources.root_tree.fetching import MOST_AHEAD, ReadAhead, opened_bytes

from ..conftest import Desk

OPS = """
    import time
    from cenote import operation
    from cenote.analysis.sources.root_tree.fetching import AHEAD

    @operation("custom.look", reads=["MET_pt"], adds=["seen"])
    def look(events):
        deadline = time.monotonic() + 120
        while events.dataset.name == "b" and not AHEAD.coming:
            assert time.monotonic() < deadline, "nothing was fetched for the next task"
            time.sleep(0.01)
        return {"seen": events["MET_pt"]}
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: DATASETS}
    analysis:
      stages:
        - {id: Look, op: custom.look}
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: x, type: regular, source: seen, bins: {nbins: 20, low: 0, high: 200}}]}
    execution: {backend: BACKEND, pools: {default: {workers: 1}}}
"""


def flow(desk: Desk, backend: str, place: str) -> Path:
    datasets = ", ".join(f'{{name: {name}, files: ["{place}/{name}.root"]}}' for name in "abc")
    return desk.write("flow.yaml", FLOW.replace("DATASETS", f"[{datasets}]").replace("BACKEND", backend))


def test_the_next_task_is_fetched_for_while_one_computes(desk: Desk) -> None:
    for number, name in enumerate("abc"):
        desk.muons(f"{name}.root", events=200, seed=number)
    desk.write("ops.py", OPS.replace('== "b"', '== ""'))
    here = cenote.load(flow(desk, "local", str(desk.folder))).run(desk.folder / "here")
    desk.write("ops.py", OPS)
    with FileServer(desk.folder).serving() as server:
        run = cenote.load(flow(desk, "dask", server.url)).run(desk.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    assert run.product("H").view(flow=True).tobytes() == here.product("H").view(flow=True).tobytes()


def test_what_is_fetched_is_asked_for_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(200)))
    ranges = [(0, 10), (100, 20)]
    with FileServer(tmp_path).serving() as server:
        ahead, url = ReadAhead(), f"{server.url}/a"
        ahead.begin(url, ranges)
        ahead.begin(url, ranges)
        found = ahead.take(url, ranges)
        assert found is not None
        assert bytes(found(100, 20)) == bytes(range(100, 120))
        asked = list(server.ranges)
        with opened_bytes(url) as file:
            file.merged(ranges)
        assert server.ranges == asked * 2
        assert ahead.take(url, ranges) is None, "what was taken is gone"


def test_what_cannot_be_fetched_is_left_to_the_reading(tmp_path: Path) -> None:
    with FileServer(tmp_path).serving() as server:
        ahead, url = ReadAhead(), f"{server.url}/missing"
        ahead.begin(url, [(0, 10)])
        assert ahead.take(url, [(0, 10)]) is None
    ahead.begin(str(tmp_path / "missing"), [(0, 10_000_000)])


def test_what_nobody_comes_for_is_let_go(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(200))
    with FileServer(tmp_path).serving() as server:
        ahead, url = ReadAhead(), f"{server.url}/a"
        for start in range(MOST_AHEAD + 3):
            ahead.begin(url, [(start, 10)])
        assert ahead.coming == MOST_AHEAD
        assert ahead.take(url, [(0, 10)]) is None
        assert ahead.take(url, [(MOST_AHEAD + 2, 10)]) is not None
