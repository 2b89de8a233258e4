"""A second run in the same folder does what has changed, and nothing else; damaged results are made again."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import cenote
from cenote.engine.messages import TaskDone
from cenote.execution.runs.journal import read_events
from cenote.execution.runtime.task_specs import TaskSpecs

from ..conftest import Desk

FLOW = """
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 500}}
    analysis:
      stages:
        - {id: Twice, op: define, params: {variables: {twice: MET_pt * 2}}}
        - {id: Hard, op: filter, params: {expr: twice > 40}, execution: {require: other}}
        - id: H
          op: hep.hist
          params: {axes: [{name: x, source: twice, bins: {nbins: 20, low: 0, high: 200}}]}
          render: []
          execution: {require: other}
        - id: N
          op: hep.hist
          needs: [Twice]
          params: {axes: [{name: n, source: nMuon, bins: {nbins: 5, low: 0, high: 5}}]}
          render: []
    execution: {pools: {default: {workers: 1}, other: {workers: 1}}}
"""
PICTURE = "analysis.stages.N.render=[{op: hep.render.hist1d, out: counts}]"


@pytest.fixture
def flow(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(desk.folder)
    desk.muons("a.root", events=2000)
    return desk.write("flow.yaml", FLOW)


def times_done(folder: Path) -> int:
    """Of all runs in the folder."""
    return sum(isinstance(event, TaskDone) for event in read_events(folder))


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def stored(folder: Path) -> list[Path]:
    """The packs of results that runs in the folder left there."""
    return sorted((folder / "work/results/own/packs").glob("*.pack"))


def size_of(files: list[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def test_nothing_is_done_again_where_nothing_has_changed(flow: Path) -> None:
    first = cenote.load(flow).run("out")
    done = times_done(Path("out"))
    again = cenote.load(flow).run("out")
    assert times_done(Path("out")) == done
    tasks = again.summary["tasks"]
    assert (tasks["reused"], tasks["done"], tasks["waiting"]) == (tasks["total"], tasks["total"], 0)
    assert all(stage["done"] == stage["tasks"] for stage in again.summary["stages"])
    assert again.product("H") == first.product("H")


def test_only_what_depends_on_a_change_is_done_again(flow: Path) -> None:
    cenote.load(flow).run("out")
    changed = cenote.load(flow, sets=["analysis.stages.Hard.params.expr=twice > 60"]).run("out")
    ran = {stage["id"]: sum(stage["pools"].values()) for stage in changed.summary["stages"]}
    assert ran["H"] > 0
    fresh = cenote.load(flow, sets=["analysis.stages.Hard.params.expr=twice > 60"]).run("fresh")
    assert changed.product("H") == fresh.product("H")


def tasks_done_by(change: Callable[[], object], flow: Path, **options: str) -> int:
    """How many tasks run after a change; what they give is what a run in a new folder gives."""
    before = times_done(Path("out"))
    change()
    again = cenote.load(flow, **options).run("out")
    fresh = cenote.load(flow, **options).run("fresh", fresh=True)
    for name in fresh.products:
        assert again.product(name) == fresh.product(name)
    return times_done(Path("out")) - before


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_a_file_that_is_added_or_written_again_is_read_and_no_other(desk: Desk, flow: Path, backend: str) -> None:
    cenote.load(flow, backend=backend).run("out")
    partitions, merges = 1, 2  # of the file, in each of two segments; and one merge in each
    added = tasks_done_by(lambda: desk.muons("b.root", events=500, seed=2), flow, backend=backend)
    assert added == 2 * partitions + merges
    written = tasks_done_by(lambda: desk.muons("b.root", events=500, seed=3), flow, backend=backend)
    assert written == 2 * partitions + merges
    assert tasks_done_by(lambda: desk.write("flow.yaml", FLOW + "# a word"), flow, backend=backend) == 0


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_a_file_that_is_touched_moved_or_copied_is_the_same_file(desk: Desk, flow: Path, backend: str) -> None:
    desk.muons("b.root", events=500, seed=2)
    cenote.load(flow, backend=backend).run("out")
    elsewhere = desk.folder / "elsewhere"
    elsewhere.mkdir()

    def replace_by_links() -> None:
        for file in desk.folder.glob("*.root"):
            file.rename(elsewhere / file.name)
            file.symlink_to(elsewhere / file.name)

    def copy_back() -> None:
        for file in elsewhere.glob("*.root"):
            (desk.folder / file.name).unlink()
            shutil.copyfile(file, desk.folder / file.name)

    for change in (
        lambda: os.utime("b.root", (1, 1)),
        lambda: Path("b.root").rename("c.root"),
        replace_by_links,
        copy_back,
    ):
        assert tasks_done_by(change, flow, backend=backend) == 0


def test_by_its_stamp_a_file_that_is_touched_is_another(desk: Desk, flow: Path) -> None:
    desk.write("flow.yaml", FLOW.replace("chunk_size: 500", "chunk_size: 500, same_file: stamp"))
    cenote.load(flow).run("out")
    assert tasks_done_by(lambda: os.utime("a.root", (1, 1)), flow) == 2 * 4 + 2


def test_a_dataset_that_changes_is_computed_alone_as_far_as_stages_look_at_it(desk: Desk, flow: Path) -> None:
    desk.muons("b.root", events=1500, seed=2)
    two = FLOW.replace(
        '[{name: d, files: ["*.root"]}]', "[{name: d, files: a.root}, {name: e, files: b.root, xsec: 1}]"
    )
    desk.write("flow.yaml", two)
    cenote.load(flow).run("out")
    assert tasks_done_by(lambda: desk.write("flow.yaml", two.replace("xsec: 1", "xsec: 2")), flow) == 0
    weighted = two.replace("{axes: [{name: x,", "{weight: dataset_xsec, axes: [{name: x,").replace(
        "a.root}", "a.root, xsec: 1}"
    )
    desk.write("flow.yaml", weighted)
    cenote.load(flow).run("out")
    changed = weighted.replace("b.root, xsec: 1", "b.root, xsec: 2")
    assert tasks_done_by(lambda: desk.write("flow.yaml", changed), flow) == 2 * 3 + 1, "events, H, and one merge"


def test_results_of_partitions_stay_within_a_limit_and_the_oldest_go_first(flow: Path) -> None:
    def with_cut(cut: int, limit: str) -> cenote.Run:
        sets = [f"analysis.stages.Hard.params.expr=twice > {cut}", f"execution.store.limit={limit}"]
        return cenote.load(flow, sets=sets).run("out")

    with_cut(40, "1GB")
    kept = size_of(stored(Path("out")))
    with_cut(60, "1GB")
    assert size_of(stored(Path("out"))) > kept
    before = times_done(Path("out"))
    with_cut(40, "1GB")
    assert times_done(Path("out")) == before
    with_cut(60, "0B")
    with_cut(60, "0B")
    assert times_done(Path("out")) == before
    with_cut(80, "0B")
    left = times_done(Path("out"))
    with_cut(80, "0B")
    assert times_done(Path("out")) > left, "nothing of it was kept"


OWN = """
    from cenote import operation
    from helper import FACTOR

    @operation("custom.scaled", reads=["MET_pt"], adds=["scaled"])
    def scaled(events):
        return {"scaled": events["MET_pt"] * FACTOR}
"""


def test_a_comment_or_a_docstring_in_own_code_changes_nothing(desk: Desk, flow: Path) -> None:
    desk.write("ops.py", OWN)
    desk.write("helper.py", "FACTOR = 2.0")
    text = FLOW.replace("op: define, params: {variables: {twice: MET_pt * 2}}", "op: custom.scaled")
    desk.write("flow.yaml", "    plugins: [ops.py]" + text.replace("twice", "scaled"))
    cenote.load(flow).run("out")
    assert tasks_done_by(lambda: desk.write("helper.py", "# how much\nFACTOR = (2.0)\n"), flow) == 0
    documented = OWN.replace("scaled(events):", 'scaled(events):\n        """Twice."""  # as before')
    assert tasks_done_by(lambda: desk.write("ops.py", documented), flow) == 0
    assert tasks_done_by(lambda: desk.write("helper.py", "FACTOR = 3.0"), flow) > 0
    assert tasks_done_by(lambda: desk.write("ops.py", OWN.replace("* FACTOR", "* FACTOR + 1")), flow) > 0


def test_products_of_stages_that_are_gone_go_too_and_other_files_stay(flow: Path) -> None:
    cenote.load(flow, sets=[PICTURE]).run("out")
    Path("out/plots/talk.png").write_text("mine")
    Path("out/products/notes.txt").write_text("mine")
    assert "counts.png" in files_in(Path("out/plots"))
    flow.write_text(
        flow.read_text().partition("    - id: N\n")[0]
        + "\nexecution: {pools: {default: {workers: 1}, other: {workers: 1}}}\n"
    )
    cenote.load(flow).run("out")
    left = [*files_in(Path("out/plots")), *files_in(Path("out/products"))]
    assert "talk.png" in left
    assert "notes.txt" in left
    assert any(name.startswith("H.") for name in left)
    assert not any(name.startswith(("counts", "N.")) for name in left)


def test_a_picture_under_a_new_name_takes_the_place_of_the_old_one(flow: Path) -> None:
    cenote.load(flow, sets=[PICTURE]).run("out")
    cenote.load(flow, sets=[PICTURE.replace("counts", "muons")]).run("out")
    plots = files_in(Path("out/plots"))
    assert "muons.png" in plots
    assert "counts.png" not in plots


def test_a_fresh_run_does_everything_again(flow: Path) -> None:
    cenote.load(flow).run("out")
    Path("out/plots/talk.png").write_text("mine")
    done = times_done(Path("out"))
    again = cenote.load(flow).run("out", fresh=True)
    assert times_done(Path("out")) == done, "of this run alone: the journal of the other one is gone"
    assert again.summary["tasks"]["reused"] == 0
    assert Path("out/plots/talk.png").exists()


def test_a_skim_that_somebody_removed_is_written_again(flow: Path) -> None:
    sets = ["analysis.stages.Hard.write={kind: parquet, path: hard.parquet}"]
    run = cenote.load(flow, sets=sets).run("out")
    first = Path("out/products") / run.product("Hard:files")[0]["path"]
    content = first.read_bytes()
    first.unlink()
    assert cenote.load(flow, sets=sets).run("out").status == "succeeded"
    assert len(first.read_bytes()) == len(content)


def test_skims_of_a_stage_that_writes_none_any_more_are_removed(flow: Path) -> None:
    sets = ["analysis.stages.Hard.write={kind: parquet, path: hard.parquet}"]
    cenote.load(flow, sets=sets).run("out")
    assert files_in(Path("out/products/hard"))
    flow.write_text(flow.read_text().replace("Hard", "Harder"))
    cenote.load(flow).run("out")
    assert not Path("out/products/hard").exists()


# parts of a workflow


def stages_run(run: cenote.Run) -> set[str]:
    return {stage["id"] for stage in run.summary["stages"]}


def test_until_a_stage_runs_it_and_what_it_needs(flow: Path) -> None:
    run = cenote.load(flow).run("out", until="Hard")
    assert stages_run(run) == {"Twice", "Hard"}
    assert run.status == "succeeded"


def test_until_keeps_products_on_the_way(flow: Path) -> None:
    flow.write_text(flow.read_text().replace("needs: [Twice]", "needs: [H]"))
    run = cenote.load(flow).run("out", until=["N"])
    assert set(run.products) == {"H", "N"}


def test_only_a_stage_publishes_nothing_else(flow: Path) -> None:
    flow.write_text(flow.read_text().replace("needs: [Twice]", "needs: [H]"))
    sets = ["analysis.stages.Hard.write={kind: parquet, path: hard.parquet}"]
    run = cenote.load(flow, sets=sets).run("out", only="N")
    assert run.products == ("N",)
    assert not any(name.startswith(("H.", "hard")) for name in files_in(Path("out/products")))
    whole = cenote.load(flow).run("whole")
    assert run.product("N") == whole.product("N")


def test_what_was_not_chosen_stays_as_it_was(flow: Path) -> None:
    cenote.load(flow, sets=[PICTURE]).run("out")
    before = files_in(Path("out/products"))
    cenote.load(flow, sets=[PICTURE]).run("out", only="H")
    assert files_in(Path("out/products")) == before
    assert "counts.png" in files_in(Path("out/plots"))


def test_force_does_a_stage_and_what_follows_again(flow: Path) -> None:
    cenote.load(flow).run("out")
    forced = cenote.load(flow).run("out", force="Hard")
    ran = {stage["id"]: sum(stage["pools"].values()) for stage in forced.summary["stages"]}
    assert ran["Hard"] > 0
    assert ran["H"] > 0
    only_the_last = cenote.load(flow).run("out", force=["N"])
    ran = {stage["id"]: sum(stage["pools"].values()) for stage in only_the_last.summary["stages"]}
    assert (ran["Hard"], ran["H"]) == (0, 0)
    assert ran["N"] > 0


def test_a_stage_that_is_not_part_of_the_run_cannot_be_forced(flow: Path) -> None:
    with pytest.raises(cenote.CenoteError, match="'H' is not part of this run"):
        cenote.load(flow).run("out", until="Hard", force="H")


def test_a_plan_can_be_of_a_part(desk: Desk, flow: Path) -> None:
    assert [stage.stage for stage in cenote.load(flow).plan(until="Hard").stages] == ["Twice", "Hard"]
    shown = desk.cenote("plan", "flow.yaml", "--only", "N")
    assert shown.returncode == 0, shown.stderr
    assert "Hard" not in shown.stdout


# damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 0b11
    path.write_bytes(content)


@pytest.mark.parametrize(("damage", "backend"), [(cut, "local"), (empty, "local"), (flip, "local"), (flip, "dask")])
def test_a_damaged_result_is_made_again_and_that_is_said(
    flow: Path, damage: Callable[[Path], None], backend: str
) -> None:
    analysis = cenote.load(flow, backend=backend)
    first = analysis.run("out")
    for path in stored(Path("out")):
        damage(path)
    again = analysis.run("out")
    assert again.status == "succeeded", str(again.failures)
    assert any("damaged" in warning and "recomputed" in warning for warning in again.warnings), again.warnings
    assert again.product("H") == first.product("H")
    assert again.product("N") == first.product("N")


def test_damage_that_shows_only_when_a_task_reads_it_is_repaired(desk: Desk, flow: Path) -> None:
    """Events that crossed to another pool are there, as long as they should be, with a bit turned over."""
    desk.write("ops.py", FAILS)
    sets = ["plugins=[ops.py]", "analysis.stages.Hard.op=custom.fails"]
    Path("fail").touch()
    broken = cenote.load(flow, sets=sets).run("out", keep_going=True)
    assert broken.status in ("failed", "partial")
    Path("fail").unlink()
    plan = cenote.load(flow, sets=sets).plan()
    specs = TaskSpecs(plan)
    names = [name for task in range(len(plan.tasks)) for name in specs.names_of_events(task)]
    crossing = [path for name in names if (path := Path("out/work", name[:2], name)).exists()]
    assert crossing, "events for the other pool are kept"
    flip(crossing[0])
    repaired = cenote.load(flow, sets=sets).run("out")
    assert repaired.status == "succeeded", repaired.failures
    assert any("damaged" in warning for warning in repaired.warnings)
    assert repaired.product("H") == cenote.load(flow, sets=sets).run("fresh").product("H")


FAILS = """
    import os
    from cenote import operation

    @operation("custom.fails", reads=["twice"], filter=True)
    def fails(events, *, expr: str):
        if os.path.exists("fail"):
            raise ValueError("on purpose")
        return events["twice"] > 40
"""


def test_results_of_somebody_else_are_not_trusted_and_not_executed(flow: Path) -> None:
    first = cenote.load(flow).run("out")

    for path in stored(Path("out")):
        path.write_bytes(path.read_bytes()[:64] + pickle.dumps(Planted()))
    Path("out/work/results/own/key").chmod(0o644)
    again = cenote.load(flow).run("out")
    assert again.status == "succeeded"
    assert any("not yours alone" in warning for warning in again.warnings)
    assert not Path("executed").exists()
    assert again.product("H") == first.product("H")


MODEL = """
    from cenote import operation

    class Model:
        answer = 42

    @operation("custom.model", reads=["MET_pt"], scope="run", product="model")
    def model(events):
        return Model()
"""


def test_a_product_that_is_a_pickle_is_read_only_if_a_run_of_ours_wrote_it(desk: Desk, flow: Path) -> None:
    desk.write("ops.py", MODEL)
    sets = ["plugins=[ops.py]", "analysis.stages=[{id: M, op: custom.model}]"]
    run = cenote.load(flow, sets=sets).run("out")
    assert run.product("M").answer == 42
    pickled = Path("out/products/M.pkl")
    whole = pickled.read_bytes()
    pickled.write_bytes(pickle.dumps(Planted()))
    with pytest.raises(cenote.CenoteError, match="none of your runs wrote"):
        run.product("M")
    assert not Path("executed").exists()
    pickled.write_bytes(whole)
    assert run.product("M").answer == 42
    Path("out/work/key").chmod(0o644)
    with pytest.raises(cenote.CenoteError, match="trust=True"):
        run.product("M")
    assert run.product("M", trust=True).answer == 42


class Planted:
    """Leaves a trace when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("executed",)
