"""Whatever people's own modifiers do, numbers stay right, the modifier is named, and the run has its summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cenote
from cenote.analysis.modifiers.interface import LONGEST_WARNING
from cenote.analysis.modifiers.support.measures import MOST_OF_TASK

from ..conftest import Desk

OPS = """
    import os
    import signal
    import time
    from dataclasses import replace

    import awkward as ak
    import numpy as np
    from cenote import modifier, operation

    @operation("custom.first", reads=["Muon_pt", "MET_pt"], adds=["hardest"])
    def first(events):
        return {"hardest": np.asarray(ak.fill_none(ak.max(events["Muon_pt"], axis=1), 0.0))}

    @operation("custom.endless", reads=["MET_pt"], adds=["hardest"])
    def endless(events):
        time.sleep(3600)

    @modifier("custom.patient", limits_time=True)
    def patient(run, events, *, call, seconds: float = 0.5):
        call.limit(seconds)
        return run(events)

    @modifier("custom.undeclared_limit")
    def undeclared_limit(run, events, *, call):
        call.limit(1)
        return run(events)

    def with_column(result, name, column):
        return replace(result, events=replace(result.events, columns={**result.events.columns, name: column}))

    @modifier("custom.flattens")
    def flattens(run, events):
        ak.to_numpy(ak.flatten(events["Muon_pt"]))[:] = 0
        return run(events)

    @modifier("custom.sets_field", effect="observes")
    def sets_field(run, events):
        result = run(events)
        ak.to_numpy(ak.flatten(result.events["Muon_pt"]))[:] = 0
        return result

    @modifier("custom.executes_in_place", effect="executes")
    def executes_in_place(run, events, *, lists: bool = False):
        result = run(events)
        (ak.to_numpy(ak.flatten(events["Muon_pt"])) if lists else result.events["MET_pt"])[:] = 0
        return result

    @modifier("custom.talks")
    def talks(run, events, *, call):
        for number in range(1000):
            call.warn(f"{call.dataset} {number} " + "x" * 1000)
        return run(events)

    @modifier("custom.other_column", effect="executes")
    def other_column(run, events):
        result = run(events)
        return with_column(result, "MET_pt", result.events["MET_pt"] * 2)

    @modifier("custom.new_column", effect="executes")
    def new_column(run, events):
        return with_column(run(events), "surprise", np.zeros(len(events)))

    @modifier("custom.own_way", effect="executes")
    def own_way(run, events):
        return with_column(run(events), "hardest", np.zeros(len(events)))

    @modifier("custom.no_events", effect="changes")
    def no_events(run, events):
        return replace(run(events), events=None)

    @modifier("custom.loses", effect="changes")
    def loses(run, events):
        result = run(events)
        left = {name: column for name, column in result.events.columns.items() if name != "hardest"}
        return replace(result, events=replace(result.events, columns=left))

    @modifier("custom.too_short", effect="changes")
    def too_short(run, events):
        return with_column(run(events), "hardest", np.zeros(3))

    @modifier("custom.notes", measures={"found": "Found", "sum": "Sum", "word": "Word"})
    def notes(run, events, *, call):
        call.note(found=np.bool_(True), sum=1e308, word="x" * 5000 + "\\udce9")
        call.note("row \\udce9", found=True, sum=10**400, word="\\udce9")
        call.warn("of \\udce9")
        return run(events)

    @modifier("custom.unfit_notes", measures={"mean": "Mean", "part": "Part", "size": "Size"})
    def unfit_notes(run, events, *, call):
        call.note(mean=np.float32("nan"), part=None, size=np.array(3))
        return run(events)

    @modifier("custom.notes_list", measures={"found": "Found"})
    def notes_list(run, events, *, call):
        call.note(found=[1, 2])
        return run(events)

    @modifier("custom.kills")
    def kills(run, events, *, how: str):
        os._exit(3) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)

    @modifier("custom.file_in_file")
    def file_in_file(run, events, *, call):
        call.attach("one", "text")
        call.attach("one/two", "text")
        call.attach("n" * 300, "text")
        return run(events)

    @modifier("custom.attaches")
    def attaches(run, events, *, call, nothing: bool = False):
        call.attach("a" if nothing else "a\\0b", None if nothing else "text")
        return run(events)
"""

FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: one, files: [a.root]}, {name: two, files: [b.root]}]}
    analysis:
      stages:
        - {id: First, op: custom.first, execution: {modifiers: %s}}
        - {id: Hardest, op: hep.hist, render: [], params: {axes: [hardest]}}
        - {id: Pt, op: hep.hist, render: [], needs: First, params: {axes: [Muon_pt]}}
        - {id: Met, op: hep.hist, render: [], needs: First, params: {axes: [MET_pt]}}
"""


WHOLE = """
    from cenote import modifier, operation

    @operation("custom.all", reads=["MET_pt"], product="number", scope="%s")
    def all_events(events):
        return len(events)

    @modifier("custom.raises")
    def raises(run, events):
        raise ValueError("no")
"""

WHOLE_FLOW = """
    plugins: [more.py]
    data: {datasets: [{name: one, files: [a.root]}, {name: two, files: [b.root]}]}
    analysis: {stages: [{id: All, op: custom.all, execution: {modifiers: [custom.raises]}}]}
"""


@pytest.fixture
def user(desk: Desk) -> Desk:
    """Somebody with two files and modifiers that go too far."""
    desk.write("ops.py", OPS)
    desk.muons("a.root", events=300, seed=1)
    desk.muons("b.root", events=300, seed=2)
    return desk


def flow(user: Desk, *modifiers: str) -> Path:
    return user.write("flow.yaml", FLOW % f"[{', '.join(modifiers)}]")


REFUSED = {
    "custom.flattens": "read-only",
    "custom.sets_field": "read-only",
    "custom.executes_in_place": "read-only",
    "{name: custom.executes_in_place, params: {lists: true}}": "read-only",
    "custom.other_column": "changes column 'MET_pt', which the stage does not: only a modifier that declares",
    "custom.new_column": "adds column 'surprise', which the stage does not: only a modifier that declares",
    "custom.no_events": "returned a result with nothing instead of events",
    "custom.loses": "loses column 'hardest', which the stage adds and later stages read",
    "custom.too_short": "returned column 'hardest' with 3 values for 300 events",
    "custom.notes_list": "'found' is to be a number or text, not a value of type list",
    "custom.attaches": "'a\0b' is not the name of a file",
    "custom.undeclared_limit": "a modifier that calls `limit` declares `limits_time=True`",
    "{name: custom.patient, params: {seconds: 0}}": "a limit is a number of seconds above zero, not 0",
    "{name: custom.attaches, params: {nothing: true}}": "'a' is to have text or bytes, not a value of type NoneType",
}


@pytest.mark.parametrize("written", REFUSED)
def test_a_modifier_that_does_more_than_it_declares_is_refused_by_its_name_at_its_stage(
    user: Desk, written: str
) -> None:
    found = cenote.load(flow(user, written)).run(user.folder / "out")
    assert found.status == "failed"
    failure = found.failures[0]
    assert REFUSED[written] in failure["message"]
    assert failure["stage"] == "First"
    assert failure["modifier"] in written


def test_a_modifier_may_compute_the_stage_in_its_own_way(user: Desk) -> None:
    found = cenote.load(flow(user, "custom.own_way")).run(user.folder / "out")
    assert found.status == "succeeded"
    assert found.product("Hardest").axes[0].edges[0] == 0


def test_a_run_keeps_some_of_many_warnings_and_says_how_many_more_there_were(user: Desk) -> None:
    found = cenote.load(flow(user, "custom.talks")).run(user.folder / "out")
    assert found.status == "succeeded"
    *kept, rest = found.warnings
    assert len(kept) == 2 * MOST_OF_TASK
    assert max(map(len, kept)) == LONGEST_WARNING
    assert rest == "modifiers warned 1,960 more times, which is not kept"


def test_flags_huge_sums_and_odd_texts_are_noted_and_shown(user: Desk) -> None:
    done = user.typed("run", str(flow(user, "custom.notes")), "--out", "out")
    assert done.returncode == 0, done.stdout
    assert "of \\udce9" in done.stderr
    summary = json.loads((user.folder / "out/summary.json").read_text())
    (noted,) = summary["stages"][0]["modifiers"]
    assert noted["values"]["found"] == 2
    assert noted["values"]["sum"] == pytest.approx(1.7976931348623157e308)
    assert [len(word) for word in noted["values"]["word"]] == [160]
    assert noted["rows"] == {"row \\udce9": {"found": 2, "word": {"\\udce9": 2}}}
    assert user.typed("report", "out").returncode == 0


def test_what_cannot_be_added_up_is_told_once_and_left_out(user: Desk) -> None:
    done = user.typed("run", str(flow(user, "custom.unfit_notes")), "--out", "out")
    assert done.returncode == 0, done.stdout
    assert done.stderr.count("'mean' of stage 'First' was NaN in some calls, which do not count for it") == 1
    assert done.stderr.count("'part' of stage 'First' was None in some calls, which do not count for it") == 1
    summary = json.loads((user.folder / "out/summary.json").read_text())
    assert summary["stages"][0]["modifiers"][0]["values"] == {"size": 6}


@pytest.mark.parametrize(("how", "workers"), [("exit", "1"), ("exit", "2"), ("kill", "2")])
def test_a_modifier_that_kills_its_worker_is_named_with_its_stage(user: Desk, how: str, workers: str) -> None:
    file = flow(user, "profile", f"{{name: custom.kills, params: {{how: {how}}}}}")
    sets = ("--set", "execution.limits.lost=0", "--set", "execution.limits.crashed=0")
    done = user.typed("run", str(file), "--out", "out", "--workers", workers, *sets)
    assert done.returncode == 21, done.stderr
    assert "First lost its worker on" in done.stderr
    assert "in the stage or its modifiers (profile, custom.kills)" in done.stderr


@pytest.mark.parametrize(("scope", "place"), [("run", ""), ("dataset", " (dataset one)")])
def test_a_failure_in_a_stage_that_sees_many_partitions_names_no_single_one(user: Desk, scope: str, place: str) -> None:
    user.write("more.py", WHOLE % scope)
    file = user.write("flow.yaml", WHOLE_FLOW)
    sets = ("--set", "sources={events: {kind: root_tree, chunk_size: 100}}")
    done = user.typed("run", str(file), "--out", "out", "--workers", "1", *sets)
    assert f"All raised an exception{place}: modifier 'custom.raises': ValueError: no" in done.stderr


def test_a_file_that_cannot_be_written_costs_no_results(user: Desk) -> None:
    found = cenote.load(flow(user, "custom.file_in_file")).run(user.folder / "out")
    assert found.status == "succeeded"
    assert (found.folder / "debug/modifiers/custom.file_in_file/one").read_text() == "text"
    told = [warning for warning in found.warnings if warning.startswith("modifier 'custom.file_in_file': a file")]
    assert len(told) == 2
    assert any("file name too long" in warning for warning in told)


@pytest.mark.parametrize("workers", [None, 1])
def test_a_function_that_declares_so_stops_its_stage(user: Desk, workers: int | None) -> None:
    file = flow(user, "custom.patient")
    file.write_text(file.read_text().replace("custom.first", "custom.endless"))
    found = cenote.load(file).run(user.folder / "out", workers=workers)
    assert found.failures[0]["cause"] == "timeout"
    assert found.failures[0]["stage"] == "First"
