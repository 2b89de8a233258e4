"""Test the `profile` modifier: what it measures, its tables, and that another profiler does not disturb it."""

from __future__ import annotations

import cProfile
import sys
import threading
import tracemalloc
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from cenote.analysis.modifiers.interface import FinishedRun
from cenote.analysis.modifiers.profile import Profile
from cenote.analysis.modifiers.profile.flames import flame_graph, read_folded
from cenote.analysis.modifiers.support.measures import MeasuredStage
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Events

from .conftest import Around

SVG = "{http://www.w3.org/2000/svg}"


def busy(events: Events) -> Result:
    return Result(events.with_columns({"sum": slowly_added(events.size)}))


def slowly_added(size: int) -> np.ndarray:
    total = 0.0
    for number in range(300_000):
        total += number % 7
    return np.full(size, total)


def holding(events: Events) -> Result:
    return Result(events.with_columns({"block": np.ones((events.size, 20_000))}))


def failing(_events: Events) -> Result:
    raise LookupError("nothing there")


def test_every_call_is_measured_without_any_setting(around: Around) -> None:
    values = around(Profile(), busy).measured.values
    assert 0 < values["cpu_seconds"] <= values["seconds"] == values["longest"]
    assert values["process_cpu_seconds"] > 0
    assert "page_faults" in values
    assert not {"allocated", "blocks"} & set(values)


def test_functions_are_listed_for_all_calls_of_the_process_and_ours_are_not_among_them(around: Around) -> None:
    profile = Profile(functions=True)
    around(profile, busy)
    ((name, content),) = around(profile, busy).files.items()
    assert name.startswith("it/Stage/")
    assert name.endswith(".functions.txt")
    text = content.decode()
    assert "2 calls of the stage in this process" in text
    assert "slowly_added" in text
    assert "modified.py" not in text
    assert "cenote/modifiers" not in text


def test_as_many_functions_are_listed_as_asked_for(around: Around) -> None:
    (content,) = around(Profile(functions=1), busy).files.values()
    assert "due to restriction <1>" in content.decode()


def test_two_stages_of_a_task_have_tables_of_their_own(around: Around) -> None:
    profile = Profile(functions=True)
    around(profile, busy, stage="First")
    (name,) = around(profile, holding, stage="Second").files
    assert name.startswith("it/Second/")
    assert "1 calls" in around(profile, busy, stage="Third").files.popitem()[1].decode()


def test_the_flame_graph_begins_in_the_stage(around: Around) -> None:
    ((name, content),) = around(Profile(flame=True), busy).files.items()
    assert name.endswith(".folded")
    stacks = read_folded([content.decode()])
    assert any("slowly_added" in stack for stack in stacks)
    assert all(stack.split(";")[0] == "Stage" for stack in stacks)
    assert not any("modified.py" in stack or "around" in stack for stack in stacks)


def test_threads_are_sampled_apart(around: Around) -> None:
    profile = Profile(flame=True)
    found: list[bytes] = []

    def run(stage: str) -> None:
        found.extend(around(profile, busy, stage=stage).files.values())

    threads = [threading.Thread(target=run, args=(name,)) for name in ("One", "Two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begins = [{stack.split(";")[0] for stack in read_folded([one.decode()])} for one in found]
    assert sorted(begins, key=str) == [{"One"}, {"Two"}]


def test_the_run_ends_with_one_flame_graph_of_all_processes(tmp_path: Path) -> None:
    (tmp_path / "Slow").mkdir()
    (tmp_path / "Slow" / "node-1.folded").write_text("Slow;f (a.py:1) 1000\nSlow 500\n")
    (tmp_path / "Slow" / "node-2.folded").write_text("Slow;f (a.py:1) 2000\n")
    written: dict[str, str] = {}
    stages = {"Slow": MeasuredStage("profile", 2), "Reused": MeasuredStage("profile", 0)}
    run = FinishedRun("flow", stages, tmp_path, tasks=list, write=written.__setitem__)
    Profile(flame=True).conclude(run)
    assert written["Slow.folded"] == "Slow 500\nSlow;f (a.py:1) 3000\n"
    titles = [title.text for title in ElementTree.fromstring(written["Slow.svg"]).iter(f"{SVG}title")]
    assert titles == ["Slow: 4 ms, 100.0%", "f (a.py:1): 3 ms, 85.7%"]
    assert set(written) == {"Slow.folded", "Slow.svg"}


def test_boxes_lie_within_the_box_that_called_them() -> None:
    picture = flame_graph({"S;a <b>": 600, "S;a <b>;c & d": 300, "S;e": 100}, title="S <&>")
    boxes = {
        group.findtext(f"{SVG}title", "").partition(":")[0]: group.find(f"{SVG}rect")
        for group in ElementTree.fromstring(picture).iter(f"{SVG}g")
    }

    def edges(name: str) -> tuple[float, float]:
        box = boxes[name]
        assert box is not None
        return float(box.get("x", "")), float(box.get("x", "")) + float(box.get("width", ""))

    assert set(boxes) == {"S", "a <b>", "c & d", "e"}
    for inner, outer in (("a <b>", "S"), ("c & d", "a <b>"), ("e", "S")):
        assert edges(outer)[0] <= edges(inner)[0] <= edges(inner)[1] <= edges(outer)[1]
    assert edges("a <b>")[1] <= edges("e")[0]


@pytest.mark.parametrize("settings", [{"functions": True}, {"flame": True}], ids=str)
def test_a_profiler_that_is_active_already_stays_so(around: Around, settings: dict[str, bool]) -> None:
    own = cProfile.Profile()
    own.enable()
    try:
        hook = sys.getprofile()
        call = around(Profile(**settings), busy)
        assert sys.getprofile() is hook
    finally:
        own.disable()
    assert call.files == {}
    assert len(call.warnings.messages) == 1
    assert "another profiler is active" in call.warnings.messages[0]
    assert call.measured.values["seconds"] > 0


@pytest.mark.parametrize("settings", [{"functions": True}, {"flame": True}, {"allocations": True}], ids=str)
def test_nothing_stays_switched_on_after_a_stage_that_fails(around: Around, settings: dict[str, bool]) -> None:
    with pytest.raises(LookupError):
        around(Profile(**settings), failing)
    assert sys.getprofile() is None
    assert not tracemalloc.is_tracing()


def test_one_profile_inside_another_does_not_break_the_stage(around: Around) -> None:
    inner = Profile(functions=True)

    def profiled(events: Events) -> Result:
        around(inner, busy)
        return Result(events)

    call = around(Profile(flame=True), profiled)
    assert call.measured.values["seconds"] > 0
    assert sys.getprofile() is None


def test_without_pyinstrument_there_is_a_warning_and_no_flame_graph(
    around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyinstrument", None)
    call = around(Profile(flame=True), busy)
    assert call.files == {}
    assert "pip install 'cenote[profile]'" in call.warnings.messages[0]
    assert call.measured.values["seconds"] > 0


def test_allocations_name_the_line_that_holds_most(around: Around) -> None:
    call = around(Profile(allocations=True), holding)
    assert {"allocated", "blocks"} <= set(call.measured.values)
    ((name, content),) = call.files.items()
    assert name.endswith(".allocations.txt")
    assert int(call.measured.values["allocated"]) >= 60 * 20_000 * 8
    largest = content.decode().splitlines()[2]
    assert "test_profile.py" in largest
    assert "MB" in largest


def test_tracing_that_somebody_else_began_goes_on(around: Around) -> None:
    tracemalloc.start()
    try:
        around(Profile(allocations=True), holding)
        around(Profile(allocations=True), holding)
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("other", ["functions", "allocations"])
def test_flame_graphs_exclude_what_they_would_disturb(other: str) -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        Profile(flame=True, **{other: True})
