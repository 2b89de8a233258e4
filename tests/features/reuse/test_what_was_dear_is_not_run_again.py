"""What a dear stage does to events is kept: after a change of later stages it is not run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cenote
from cenote.engine.messages import TaskDone
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.journal import read_events
from cenote.execution.runtime.result_store.store import open_store
from cenote.execution.runtime.results import Results
from cenote.execution.runtime.task_specs import make_run_spec
from cenote.execution.worker.results.bundle import pack
from cenote.execution.worker.results.store import Store
from cenote.execution.worker.run_task import TaskRunner
from cenote.planning.plan import Plan, columns_of

from ..conftest import Desk

OPS = """
    import time
    from pathlib import Path
    from typing import ClassVar
    import numpy as np
    from cenote import operation
    from cenote.analysis.modifiers.interface import Modifier

    def note(stage):
        with Path({folder!r}, stage).open("a") as file:
            file.write("x")
        time.sleep(0.03)

    @operation("custom.slow", reads=["MET_pt", "Muon_pt"], adds=["score", "leading"])
    def slow(events):
        note("slow")
        return {{"score": events["MET_pt"] * np.float32(2), "leading": events["Muon_pt"][:, :1]}}

    @operation("custom.picky", reads=["MET_pt"], filter=True)
    def picky(events):
        note("picky")
        return np.asarray(events["MET_pt"] > 25)

    @operation("custom.fails_once", reads=["score"], filter=True)
    def fails_once(events):
        file = Path({folder!r}, "failed")
        if file.exists() and not file.read_text():
            file.write_text("x")
            raise OSError("a passing trouble")
        return np.asarray(events["score"] > 50)

    class Counts(Modifier):
        cenote_plugin: ClassVar = ("modifier", "custom.counts")

        def around(self, run, events, call):
            note("counted")
            return run(events)
"""
FLOW = """
    plugins: [ops.py]
    data: {{datasets: [{{name: d, files: [a.root]}}]}}
    sources: {{events: {{kind: root_tree, chunk_size: 1000}}}}
    analysis:
      stages:
        - {{id: Early, op: filter, params: {{expr: MET_pt > 15}}}}
        - {{id: Slow, op: custom.slow{slow}}}
        - {{id: H, op: hep.hist, render: [], params: {{axes: [{{name: x, source: score*EventWeight, bins: {bins}}}]}}}}
        - {{id: Late, op: {late}{other}}}
        - {{id: N, op: hep.hist, render: [], params: {{axes: [{{name: n, source: score, bins: {bins}}}]}}{other}}}
    {execution}
"""
BINS = "{nbins: 20, low: 0, high: 300}"
LOCAL = "execution: {pools: {default: {workers: 1}, other: {workers: 1}}}"
DASK = "execution: {backend: dask, pools: {default: {workers: 1}, other: {workers: 1}}}"
PARTS = 3


@pytest.fixture
def user(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(desk.folder)
    desk.muons("a.root", events=1000 * PARTS, weighted=True)
    desk.write("ops.py", OPS.format(folder=str(desk.folder)))
    return desk


def flow(user: Desk, cut: int = 60, *, slow: str = "", late: str = "", other: str = "", execution: str = LOCAL) -> Path:
    late = late or f"filter, params: {{expr: score > {cut}}}"
    return user.write("flow.yaml", FLOW.format(slow=slow, late=late, other=other, execution=execution, bins=BINS))


def run(file: Path, out: str = "out", **options: Any) -> cenote.Run:
    found = cenote.load(file).run(out, report=False, **options)
    assert found.status == "succeeded", found.failures
    return found


def calls(user: Desk, stage: str = "slow") -> int:
    """Since the last look."""
    file = user.folder / stage
    count = len(file.read_text()) if file.exists() else 0
    file.unlink(missing_ok=True)
    return count


def numbers(found: cenote.Run) -> list[bytes]:
    return [found.product(name).view(flow=True).tobytes() for name in ("H", "N")]


def computed(file: Path) -> list[bytes]:
    """What comes out where nothing was kept."""
    return numbers(run(file, "fresh", fresh=True))


@pytest.mark.parametrize(
    ("execution", "workers"), [(LOCAL, None), (LOCAL, 2), (DASK, None)], ids=["here", "processes", "dask"]
)
def test_a_change_of_the_last_cut_does_not_run_a_slow_stage(user: Desk, execution: str, workers: int | None) -> None:
    run(flow(user, 60, execution=execution), workers=workers)
    assert calls(user) == PARTS
    again = run(flow(user, 80, execution=execution), workers=workers)
    assert calls(user) == 0
    assert numbers(again) == computed(flow(user, 80))
    assert again.summary["bytes_read"] == 0
    assert not list(Path("out/work").glob("??/*-*"))


def test_columns_that_pass_a_stage_by_go_on_with_what_was_kept(user: Desk) -> None:
    """The events that come in were chosen before, and H reads a column of the file."""
    run(flow(user))
    calls(user)
    file = flow(user)
    changes = [f"analysis.stages.H.params.axes=[{{name: x, source: score + EventWeight, bins: {BINS}}}]"]
    again = cenote.load(file, sets=changes).run("out")
    assert calls(user) == 0
    assert numbers(again) == numbers(cenote.load(file, sets=changes).run("fresh", fresh=True))


def test_a_slow_selection_is_not_run_again(user: Desk) -> None:
    late = "custom.picky"
    run(flow(user, late=late))
    assert calls(user, "picky") == PARTS
    file = flow(user, late=late)
    finer = [f"analysis.stages.N.params.axes=[{{name: n, source: score * 2, bins: {BINS}}}]"]
    again = cenote.load(file, sets=finer).run("out")
    assert calls(user, "picky") == 0
    assert numbers(again) == numbers(cenote.load(file, sets=finer).run("fresh", fresh=True))


@pytest.mark.parametrize("execution", [LOCAL, DASK], ids=["local", "dask"])
def test_a_pool_whose_events_are_there_has_nothing_to_do(user: Desk, execution: str) -> None:
    other = ", execution: {require: other}"
    late = "filter, params: {expr: score > %s}"
    run(flow(user, late=late % 60, other=other, execution=execution))
    calls(user)
    again = run(flow(user, late=late % 80, other=other, execution=execution))
    assert calls(user) == 0
    ran = {stage["id"]: stage["pools"] for stage in again.summary["stages"]}
    assert ran["Slow"] == {}
    assert ran["N"] == {"other": PARTS}
    assert numbers(again) == computed(flow(user, late=late % 80, other=other))


def test_another_pool_may_read_other_columns_of_it(user: Desk) -> None:
    other = ", execution: {require: other}"
    run(flow(user, other=other))
    calls(user)
    file = flow(user, late="filter, params: {expr: sum(leading) > 20}", other=other)
    again = run(file)
    assert calls(user) == 0
    assert numbers(again) == computed(file)


def test_a_stage_that_is_asked_for_runs_again(user: Desk) -> None:
    run(flow(user))
    run(flow(user, 80), force=["Slow"])
    assert calls(user) == 2 * PARTS


def test_what_was_asked_for_takes_the_place_of_what_was_kept(user: Desk) -> None:
    """The code depends on something that nobody knows of."""
    code = user.folder / "ops.py"
    code.write_text(
        code.read_text().replace("np.float32(2)", f"np.float32(Path({str(user.folder)!r}, 'k').read_text())")
    )
    (user.folder / "k").write_text("2")
    run(flow(user))
    (user.folder / "k").write_text("3")
    run(flow(user), force=["Slow"])
    calls(user)
    again = run(flow(user, 80))
    assert calls(user) == 0
    assert numbers(again) == computed(flow(user, 80))


def test_nothing_is_kept_in_a_store_without_room(user: Desk) -> None:
    execution = "execution: {store: {limit: 0}, pools: {default: {workers: 1}, other: {workers: 1}}}"
    first = run(flow(user, execution=execution))
    assert not any(stage["for_later"] for stage in first.summary["stages"])
    run(flow(user, 80, execution=execution))
    assert calls(user) == 2 * PARTS


def test_a_stage_that_changed_runs_again(user: Desk) -> None:
    run(flow(user))
    code = user.folder / "ops.py"
    code.write_text(code.read_text().replace("np.float32(2)", "np.float32(3)"))
    calls(user)
    again = run(flow(user))
    assert calls(user) == PARTS
    assert numbers(again) == computed(flow(user))


def test_a_stage_that_does_not_run_is_not_observed(user: Desk) -> None:
    slow = ", execution: {modifiers: [custom.counts]}"
    run(flow(user, slow=slow))
    assert calls(user, "counted") == PARTS
    again = run(flow(user, 80, slow=slow))
    assert calls(user, "counted") == 0
    assert numbers(again) == computed(flow(user, 80))


@pytest.mark.parametrize("execution", [LOCAL, DASK], ids=["local", "dask"])
def test_a_task_that_failed_gets_it_once_more(user: Desk, execution: str) -> None:
    late = "custom.fails_once, execution: {retries: 2}"
    run(flow(user, execution=execution))
    calls(user)
    (user.folder / "failed").write_text("")
    again = run(flow(user, late=late, execution=execution))
    assert (user.folder / "failed").read_text() == "x"
    assert calls(user) == 0
    assert numbers(again) == computed(flow(user, late=late))


def kept_of(plan: Plan) -> dict[str, bytes]:
    """Of the first partition."""
    return {columns_of("Slow"): plan.ids.of(plan.tasks, 0)[columns_of("Slow")]}


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"events": 2, "seconds": 1.0, "index": None, "columns": {}},
        {"events": 1000, "seconds": 1.0, "index": None, "columns": {}},
        {"events": "many"},
    ],
    ids=["nothing", "other events", "no columns", "forged"],
)
def test_what_is_not_what_was_kept_is_computed_again(user: Desk, content: dict[str, Any]) -> None:
    run(flow(user))
    calls(user)
    file = flow(user, 80)
    plan = cenote.load(file).plan()
    kept = open_store(plan.workflow.execution.store, RunFolder(Path("out")), warn=pytest.fail)
    kept.drop(kept_of(plan).values())
    kept.add(memoryview(b"".join(pack({columns_of("Slow"): content}))), kept_of(plan), seconds=1.0)
    kept.close()
    again = run(file)
    assert calls(user) == 1
    assert numbers(again) == computed(file)


def test_what_the_disk_has_damaged_is_computed_again(user: Desk) -> None:
    run(flow(user))
    calls(user)
    for file in user.folder.parent.rglob("*.pack"):
        content = bytearray(file.read_bytes())
        at = content.rindex(b"leading")
        content[at : at + 7] = b"LEADING"
        file.write_bytes(content)
    again = run(flow(user, 80))
    assert calls(user) == 1
    assert numbers(again) == computed(flow(user, 80))


@pytest.mark.parametrize("split", [2, 3, 16])
def test_a_partition_in_pieces_is_given_the_events_of_each(user: Desk, split: int) -> None:
    run(flow(user))
    calls(user)
    plan = cenote.load(flow(user, 80)).plan()
    folder = RunFolder(Path("out").absolute())
    results = Results(plan, folder)
    specs = results.lay_out()
    runner = TaskRunner(make_run_spec(plan, store=folder.store, files=folder.products))
    for task in sorted(specs.demand.made):
        spec = specs.write(task, attempt=1, split=split)
        results.lay_out_for(spec, specs)
        outcome = runner.run(spec)
        assert outcome.failure is None, outcome.failure
    assert calls(user) == 0
    (product,) = [one for one in plan.products if one.name == "N"]
    found = Store(folder.store).read(plan.tasks.key(product.task))["N"]
    assert found.view(flow=True).tobytes() == computed(flow(user, 80))[1]


def test_the_journal_tells_what_was_kept_and_what_was_read(user: Desk) -> None:
    def told() -> list[tuple[str, bool]]:
        done = [event for event in read_events(Path("out")) if isinstance(event, TaskDone)]
        return [(name, kept.read) for event in done for name, kept in event.kept.items() if kept.bytes > 0]

    run(flow(user))
    assert told() == PARTS * [("Slow:columns", False)]
    run(flow(user, 80))
    assert told() == PARTS * [("Slow:columns", False)] + PARTS * [("Slow:columns", True)]


def test_the_plan_says_which_stages_are_kept_if_they_are_dear(user: Desk) -> None:
    told = user.typed("plan", str(flow(user))).stdout
    assert "kept      Slow: what it does to events, if computing it again takes ten times as long as reading it" in told


def test_a_dry_run_says_what_is_not_run_again_and_what_it_cost(user: Desk) -> None:
    run(flow(user))
    (row,) = cenote.load(flow(user, 80)).preview("out").spared
    assert (row.stage, row.what, row.tasks) == ("Slow", "columns", PARTS)
    assert row.bytes > 0
    assert row.seconds > 0.03 * PARTS
    told = user.typed("run", str(flow(user, 80)), "--out", "out", "--dry-run").stdout
    assert "kept      Slow: its columns are kept for 3 tasks, " in told
    run(flow(user, 80))
    (again,) = cenote.load(flow(user, 90)).preview("out").spared
    assert again == row


def test_the_summary_says_what_was_kept(user: Desk) -> None:
    for cut, kept, read in ((60, PARTS, 0), (80, 0, PARTS)):
        stages = {stage["id"]: stage for stage in run(flow(user, cut)).summary["stages"]}
        (row,) = stages["Slow"]["for_later"]
        assert (row["what"], row["kept"], row["read"]) == ("columns", kept, read)
        assert not stages["H"]["for_later"]
