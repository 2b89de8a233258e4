"""Modifiers are put around stages by name; what they measure is shown, and what observes changes no number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cenote
from cenote.engine.messages import TaskReused
from cenote.execution.runs.journal import read_events
from cenote.execution.runtime.task_specs import TaskSpecs, make_run_spec
from cenote.execution.worker.results.store import Store
from cenote.execution.worker.run_task import TaskRunner

from ..conftest import Desk

OPS = '''
    import os
    import time
    from typing import ClassVar

    import awkward as ak
    import numpy as np
    from cenote import modifier, operation
    from cenote.analysis.modifiers.interface import Effect, Modifier
    from cenote.analysis.modifiers.support.measures import Measure
    from cenote.analysis.operations.interface import Result

    HERE = os.environ["MODIFIERS_TEST_LOG"]

    def log(word, letters="x"):
        with open(os.path.join(HERE, word), "a") as file:
            file.write(letters)

    @operation("custom.first", reads=["Muon_pt"], adds=["hardest"])
    def first(events):
        log("first")
        return {"hardest": np.asarray(ak.fill_none(ak.max(events["Muon_pt"], axis=1), 0.0))}

    @operation("custom.second", reads=["hardest"], adds=["scaled"])
    def second(events, *, factor: float = 2.0):
        log("second")
        return {"scaled": events["hardest"] * factor}

    @operation("custom.flaky", reads=["MET_pt"], adds=["steady"])
    def flaky(events):
        marker = os.path.join(HERE, f"failed-{events['MET_pt'][0]:.6f}")
        if not os.path.exists(marker):
            open(marker, "w").close()
            raise ConnectionError("come back later")
        return {"steady": events["MET_pt"]}

    @operation("custom.endless", reads=["MET_pt"], adds=["late"])
    def endless(events):
        time.sleep(3600)

    @modifier("custom.outer", measures={"calls": "Calls"})
    def outer(run, events, *, call):
        call.note(calls=1)
        return run(events)

    @modifier("custom.letter_a")
    def letter_a(run, events):
        log("order", "(a")
        result = run(events)
        log("order", "a)")
        return result

    @modifier("custom.letter_b")
    def letter_b(run, events, *, letter: str = "b"):
        log("order", f"({letter}")
        result = run(events)
        log("order", f"{letter})")
        return result

    @modifier("custom.words", measures={"word": Measure("Said", "words"), "most": Measure("Most", "most")})
    def words(run, events, *, call, word: str = "hello", hardest: float = 1e9):
        """It has a setting that is called like a column."""
        result = run(events)
        call.note(word=f"{word} {call.dataset}", most=hardest)
        call.note("some row", most=float(len(events)))
        call.warn(f"said {word}")
        call.attach(f"{call.stage}/{call.entries[0]}.txt", word)
        return result

    class Ranked(Modifier):
        """Writes one file at the end."""

        cenote_plugin: ClassVar = ("modifier", "custom.ranked")
        measures: ClassVar = {"events": Measure("Events")}
        shout: bool = False
        """Whether in capitals."""

        def around(self, run, events, call):
            call.note(events=len(events))
            return run(events)

        def conclude(self, run):
            text = "".join(f"{stage} {found.values['events']}\\n" for stage, found in run.stages.items())
            run.write("ranking.txt", text.upper() if self.shout else text)

    @modifier("custom.doubling", effect="changes")
    def doubling(run, events):
        result = run(events)
        return Result(result.events.with_columns({"scaled": result.events["scaled"] * 2}), result.product)

    @modifier("custom.adds_column")
    def adds_column(run, events):
        return run(events.with_columns({"hardest": events["hardest"] + 1}))

    @modifier("custom.drops_events")
    def drops_events(run, events):
        return run(events.where(np.arange(len(events)) % 2 == 0))

    @modifier("custom.other_result")
    def other_result(run, events):
        return Result(run(events).events.with_columns({"scaled": np.zeros(len(events))}))

    @modifier("custom.skips")
    def skips(run, events):
        return Result(events)

    @modifier("custom.writes")
    def writes(run, events):
        events["hardest"][:] = 0
        return run(events)

    @modifier("custom.forgets")
    def forgets(run, events):
        run(events)

    @modifier("custom.raises")
    def raises(run, events, *, call):
        if call.entries[0] == 0:
            raise ValueError("this modifier is broken")
        return run(events)
'''

FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: one, files: [a.root]}, {name: two, files: [b.root], eventtype: mc}]}
    sources: {events: {kind: root_tree, chunk_size: 500}}
    analysis:
      stages:
        - {id: First, op: custom.first%(first)s}
        - {id: Second, op: custom.second, params: {factor: %(factor)s}%(second)s}
        - {id: H, op: hep.hist, render: [], params: {axes: [{source: scaled, bins: {nbins: 40, low: 0, high: 200}}]}}
    execution: {pass_variables: MODIFIERS_TEST_LOG, %(execution)s}
"""
TASKS = 4
"""Partitions of the two files together."""
LOCAL = "backend: local"
DASK = "backend: dask, pools: {default: {workers: 2, slots: 2}}"
OBSERVERS = "[trace, {name: profile, params: {flame: true}}, diagnostics, custom.outer, retry, {name: timeout}]"


@pytest.fixture
def user(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Somebody with two files and some modifiers of their own."""
    monkeypatch.setenv("MODIFIERS_TEST_LOG", str(desk.folder))
    desk.write("ops.py", OPS)
    desk.muons("a.root", events=1000, seed=1)
    desk.muons("b.root", events=1000, seed=2)
    return desk


def flow(user: Desk, *, first: str = "", second: str = "", factor: float = 2.0, execution: str = LOCAL) -> Path:
    """The workflow with modifiers of stages and of the run."""
    values = {
        "first": f", execution: {{modifiers: {first}}}" if first else "",
        "second": f", execution: {{modifiers: {second}}}" if second else "",
        "factor": factor,
        "execution": execution,
    }
    return user.write("flow.yaml", FLOW % values)


def run(file: Path, out: str = "out", **options: Any) -> cenote.Run:
    return cenote.load(file).run(file.parent / out, **options)


def numbers(found: cenote.Run) -> list[float]:
    assert found.status == "succeeded", found.failures
    values: list[float] = found.product("H").values(flow=True).tolist()
    return values


def measured(found: cenote.Run, stage: str) -> dict[str, dict[str, Any]]:
    (record,) = [one for one in found.summary["stages"] if one["id"] == stage]
    return {one["name"]: one for one in record["modifiers"]}


def times_called(user: Desk, word: str) -> int:
    file = user.folder / word
    return len(file.read_text()) if file.exists() else 0


def reused(found: cenote.Run) -> int:
    return sum(isinstance(event, TaskReused) for event in read_events(found.folder))


# what is around a stage


def test_modifiers_of_the_run_are_around_those_of_the_stage_which_replace_their_like(user: Desk) -> None:
    file = flow(
        user,
        second="[{name: custom.words, params: {word: mine}}, diagnostics]",
        execution=f"{LOCAL}, modifiers: [custom.outer, custom.words]",
    )
    (plan,) = [json.loads(user.typed("plan", str(file), "--json").stdout)]
    around = {stage["id"]: [(one["name"], one["params"]) for one in stage["modifiers"]] for stage in plan["stages"]}
    assert around["First"] == [("custom.outer", {}), ("custom.words", {})]
    assert around["Second"] == [("custom.outer", {}), ("custom.words", {"word": "mine"}), ("diagnostics", {})]
    found = run(file)
    assert measured(found, "First")["custom.words"]["values"]["word"] == {"hello one": 2, "hello two": 2}
    assert measured(found, "Second")["custom.words"]["values"]["word"] == {"mine one": 2, "mine two": 2}
    assert measured(found, "Second")["custom.words"]["rows"] == {"some row": {"most": 500.0}}


def test_the_first_modifier_is_the_outermost_and_the_run_s_are_outside_the_stage_s(user: Desk) -> None:
    run(flow(user, second="[custom.letter_a]", execution=f"{LOCAL}, modifiers: [custom.letter_b]"), workers=1)
    assert (user.folder / "order").read_text().startswith("(bb)(b(aa)b)(bb)")
    (user.folder / "order").unlink()
    run(flow(user, second="[custom.letter_a, custom.letter_b]"), "other", workers=1)
    assert (user.folder / "order").read_text() == "(a(bb)a)" * TASKS


def test_what_a_modifier_says_and_leaves_is_in_the_run(user: Desk) -> None:
    found = run(flow(user, second="[custom.words, {name: custom.ranked, params: {shout: true}}]"))
    assert found.warnings.count("modifier 'custom.words': said hello") == 1
    files = found.folder / "debug" / "modifiers"
    assert {file.name for file in (files / "custom.words" / "Second").iterdir()} == {"0.txt", "500.txt"}
    assert (files / "custom.ranked" / "ranking.txt").read_text() == "SECOND 2000\n"


def test_the_plan_shows_modifiers_only_where_there_are_any(user: Desk) -> None:
    assert "modifiers" not in user.typed("plan", str(flow(user))).stdout
    shown = user.typed("plan", str(flow(user, second="[profile, diagnostics]"))).stdout
    assert "modifiers" in shown.splitlines()[0]
    (second,) = [line for line in shown.splitlines() if line.startswith("Second")]
    assert second.rstrip().endswith("profile, diagnostics")


def test_the_end_of_a_run_tells_what_was_measured_and_later_that_nothing_was(user: Desk) -> None:
    file = str(flow(user, execution=f"{LOCAL}, modifiers: [profile, trace]"))
    told = user.typed("run", file, "--out", "out").stdout
    assert "profile   " in told
    assert "Second: time " in told
    assert "trace.json" in told
    again = user.typed("run", file, "--out", "out").stdout
    assert "profile and trace measured nothing" in again
    assert "--force STAGE" in again
    forced = user.typed("run", file, "--out", "out", "--force", "First").stdout
    assert "Second: time " in forced


def test_every_task_can_tell_what_its_modifiers_measured(user: Desk) -> None:
    told = user.typed("run", str(flow(user, second="[profile]")), "--out", "out", "-vv").stderr
    assert told.count("        profile: time ") == TASKS


def test_the_report_has_a_table_for_each_modifier(user: Desk) -> None:
    found = run(flow(user, second="[profile, diagnostics, custom.words]"))
    page = (found.folder / "report.html").read_text()
    assert '<section id="modifiers"' in page
    for words in ("Peak memory", "Columns of Second", "out scaled", "hello one (2), hello two (2)"):
        assert words in page
    assert 'href="debug/modifiers/custom.words/Second/0.txt"' in page


def test_a_report_without_modifiers_has_no_such_section(user: Desk) -> None:
    assert '<section id="modifiers"' not in (run(flow(user)).folder / "report.html").read_text()


# results


@pytest.mark.parametrize("execution", [LOCAL, DASK], ids=["local", "dask"])
def test_observers_change_no_number(user: Desk, execution: str) -> None:
    expected = numbers(run(flow(user), "plain"))
    observed = run(flow(user, execution=f"{execution}, modifiers: {OBSERVERS}"), "observed")
    assert numbers(observed) == expected
    assert all(one["calls"] == TASKS for one in measured(observed, "Second").values())
    files = {file.name for file in (observed.folder / "debug" / "modifiers").rglob("*") if file.is_file()}
    assert "trace.json" in files


def test_adding_an_observer_repeats_nothing(user: Desk) -> None:
    run(flow(user))
    again = run(flow(user, first="[diagnostics]", execution=f"{LOCAL}, modifiers: [profile, trace]"))
    assert reused(again) > 0
    assert again.summary["tasks"]["reused"] == again.summary["tasks"]["total"]


def test_adding_what_changes_results_computes_them_anew(user: Desk) -> None:
    before = run(flow(user))
    plain = numbers(before)
    changed = run(flow(user, second="[custom.doubling]"))
    assert reused(changed) == 0
    assert numbers(changed) != plain
    assert numbers(changed) == numbers(run(flow(user, factor=4.0), "other"))


def test_settings_of_modifiers_are_no_columns(user: Desk) -> None:
    file = flow(user, second="[{name: custom.words, params: {word: x, hardest: 1.0}}]")
    assert numbers(run(file)) == numbers(run(flow(user), "plain"))
    text = file.read_text().replace("source: scaled", "source: scaled + word")
    refused = user.typed("check", str(user.write("wrong.yaml", text)))
    assert refused.returncode != 0
    assert "'word'" in refused.stderr


def test_a_partition_in_pieces_adds_its_measures_up(user: Desk) -> None:
    plan = cenote.load(flow(user, second="[diagnostics, custom.outer]")).plan()
    store = Store(user.folder / "work")
    runner = TaskRunner(make_run_spec(plan, store=store.folder, files=user.folder / "files"))
    whole, pieces = (runner.run(TaskSpecs(plan).write(0, attempt=1, split=split)) for split in (1, 4))
    at_once, added = (outcome.stages["Second"].modifiers for outcome in (whole, pieces))
    assert set(at_once["diagnostics"].rows) == {"in hardest", "out scaled"}
    for row, facts in at_once["diagnostics"].rows.items():
        for name in ("type", "values", "nan", "least", "most"):
            assert added["diagnostics"].rows[row][name] == facts[name]
    assert added["diagnostics"].values == at_once["diagnostics"].values == {"events_in": 500, "events_out": 500}
    assert (at_once["custom.outer"].values, added["custom.outer"].values) == ({"calls": 1}, {"calls": 4})


# what misbehaves


@pytest.mark.parametrize("name", ["custom.adds_column", "custom.drops_events"])
def test_an_observer_that_hands_on_other_events_is_refused(user: Desk, name: str) -> None:
    found = run(flow(user, second=f"[{name}]"))
    assert found.status == "failed"
    assert "before the stage sees it: only a modifier that declares" in found.failures[0]["message"]
    assert found.failures[0]["stage"] == "Second"


MISBEHAVED = {
    "custom.adds_column": "changes column hardest before the stage sees it",
    "custom.drops_events": "before the stage sees it",
    "custom.other_result": "returns another result than that of the stage",
    "custom.skips": "does not run the stage",
    "custom.writes": "read-only",
    "custom.forgets": "returned nothing instead of the result",
    "custom.raises": "this modifier is broken",
}


@pytest.mark.parametrize("name", MISBEHAVED)
def test_a_modifier_that_does_what_it_may_not_fails_with_its_name_stage_and_partition(user: Desk, name: str) -> None:
    found = run(flow(user, second=f"[profile, {name}]"), keep_going=True)
    failure = found.failures[0]
    assert MISBEHAVED[name] in failure["message"]
    assert failure["message"].startswith(f"modifier '{name}'")
    assert (failure["modifier"], failure["stage"], failure["dataset"]) == (name, "Second", "one")
    assert failure["entries"] == [0, 500]
    assert f"<dt>modifier</dt><dd><code>{name}</code>" in (found.folder / "report.html").read_text()


@pytest.mark.parametrize("execution", [LOCAL, DASK], ids=["local", "dask"])
def test_the_worker_of_a_modifier_that_failed_goes_on(user: Desk, execution: str) -> None:
    workers = 1 if execution == LOCAL else None
    found = run(flow(user, second="[custom.raises]", execution=execution), keep_going=True, workers=workers)
    assert found.status == "partial"
    assert len(found.failures) == 2
    assert measured(found, "Second")["custom.raises"]["calls"] == TASKS - 2
    assert all(pool["workers_lost"] == 0 for pool in found.summary["pools"])


def test_the_same_modifier_twice_is_refused_with_its_place(user: Desk) -> None:
    refused = user.typed("check", str(flow(user, second="[profile, {name: profile}]")))
    assert "flow.yaml:8:" in refused.stderr
    assert "modifier 'profile' is named twice" in refused.stderr


def test_the_nearest_name_is_told(user: Desk) -> None:
    refused = user.typed("check", str(flow(user, second="[diagnostic]")))
    assert "did you mean 'diagnostics'?" in refused.stderr


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("{name: retry, params: {on: [OSErorr]}}", "modifier 'retry': there is no built-in exception 'OSErorr'"),
        ("{name: timeout, params: {base: soon}}", "'base' of modifier 'timeout': 'soon' is not a time"),
        ("{name: profile, params: {flames: true}}", "there is no key 'flames' in modifier 'profile'"),
        ("{name: custom.words, params: {word: 3}}", "'word' of modifier 'custom.words'"),
        ("{name: profile, params: {functions: -1}}", "'functions' of modifier 'profile': should be at least 0, not -1"),
        ("{name: profile, params: {flame: 1}}", "'flame' of modifier 'profile': should be true or false, not 1"),
        (
            "{name: gpu.preload, params: {fields: [hardst]}}",
            "'gpu.preload': 'fields' names 'hardst', which stage 'Second' does not read",
        ),
        ("{name: gpu.preload, params: {fields: [hardest, Muon_pt]}}", "names 'Muon_pt', which stage 'Second' does not"),
    ],
    ids=["retry", "timeout", "profile", "own", "range", "flag", "unknown column", "column of another stage"],
)
def test_wrong_settings_are_told_with_the_modifier_and_the_line(user: Desk, written: str, told: str) -> None:
    refused = user.typed("check", str(flow(user, second=f"[{written}]")))
    assert told in refused.stderr
    assert "flow.yaml:8:" in refused.stderr


def test_fields_of_gpu_preload_that_the_stage_reads_are_accepted_in_both_spellings(user: Desk) -> None:
    for name in ("Muon_pt", "Muon.pt"):
        accepted = user.typed("check", str(flow(user, first=f"[{{name: gpu.preload, params: {{fields: [{name}]}}}}]")))
        assert accepted.returncode == 0, accepted.stderr


def test_a_journal_with_a_modifier_that_is_gone_can_be_read(user: Desk) -> None:
    found = run(flow(user, second="[custom.words]"))
    (found.folder / "summary.json").unlink()
    plan = json.loads((found.folder / "plan.json").read_text())
    for stage in plan["stages"]:
        stage["modifiers"] = []
    (found.folder / "plan.json").write_text(json.dumps(plan))
    (user.folder / "ops.py").unlink()
    shown = json.loads(user.typed("status", str(found.folder), "--json").stdout)
    assert [stage["modifiers"] for stage in shown["stages"]] == [[], [], []]


# keeping and guarding


@pytest.mark.parametrize("execution", [LOCAL, DASK], ids=["local", "dask"])
def test_after_cache_only_what_changed_runs_again(user: Desk, execution: str) -> None:
    expected = numbers(run(flow(user, factor=3.0), "plain"))
    for log in ("first", "second"):
        (user.folder / log).unlink()
    run(flow(user, first="[cache]", execution=execution))
    assert (times_called(user, "first"), times_called(user, "second")) == (TASKS, TASKS)
    again = run(flow(user, first="[cache]", factor=3.0, execution=execution))
    assert numbers(again) == expected
    assert (times_called(user, "first"), times_called(user, "second")) == (TASKS, 2 * TASKS)
    assert again.summary["bytes_read"] == 0


def test_fresh_and_force_discard_what_cache_kept(user: Desk) -> None:
    file = flow(user, first="[cache]")
    for options in ({}, {"fresh": True}, {"force": ["First"]}):
        run(file, **options)
    assert times_called(user, "first") == 3 * TASKS


def test_a_run_that_failed_after_cache_goes_on_from_there(user: Desk) -> None:
    failed = run(flow(user, first="[cache]", second="[custom.raises]"))
    assert failed.status == "failed"
    assert numbers(run(flow(user, first="[cache]")))
    assert times_called(user, "first") <= TASKS + 1


def test_the_plan_shows_where_cache_cuts(user: Desk) -> None:
    plain = json.loads(user.typed("plan", str(flow(user)), "--json").stdout)
    assert {stage["segment"] for stage in plain["stages"]} == {0}
    file = str(flow(user, first="[cache]"))
    cut = json.loads(user.typed("plan", file, "--json").stdout)
    assert [stage["segment"] for stage in cut["stages"]] == [0, 1, 1]
    assert "kept      the events that leave First, for later runs" in user.typed("plan", file).stdout


def other_op(user: Desk, op: str, modifiers: str, more: str = "") -> Path:
    return user.write(
        "other.yaml",
        f"""
        plugins: [ops.py]
        data: {{datasets: [{{name: one, files: [a.root]}}]}}
        sources: {{events: {{kind: root_tree, chunk_size: 500}}}}
        analysis:
          stages:
            - {{id: Odd, op: {op}, execution: {{modifiers: {modifiers}{more}}}}}
            - {{id: H, op: hep.hist, needs: [Odd], render: [], params: {{axes: [MET_pt]}}}}
        execution: {{pass_variables: MODIFIERS_TEST_LOG}}
        """,
    )


def test_retry_rescues_a_stage_in_place(user: Desk) -> None:
    file = other_op(user, "custom.flaky", "[{name: retry, params: {on: ConnectionError, wait: 0}}]")
    found = run(file)
    assert found.status == "succeeded"
    assert found.summary["retries"] == 0
    values = measured(found, "Odd")["retry"]["values"]
    assert (values["repeats"], values["rescued"], values["reason"]) == (2, 2, {"ConnectionError": 2})


@pytest.mark.parametrize("more", ["", ", timeout: 1h"], ids=["alone", "instead of the stage's"])
def test_timeout_stops_a_stage_that_does_not_end(user: Desk, more: str) -> None:
    found = run(other_op(user, "custom.endless", "[{name: timeout, params: {base: 1s}}]", more))
    assert found.status == "failed"
    assert {failure["cause"] for failure in found.failures} == {"timeout"}
    failure = found.failures[0]
    assert failure["message"] == "modifier 'timeout': the stage ran longer than its timeout of 1 s"
    assert (failure["modifier"], failure["stage"], failure["dataset"]) == ("timeout", "Odd", "one")


# the files of a run


def spans(found: cenote.Run) -> Iterator[dict[str, Any]]:
    file = found.folder / "debug" / "modifiers" / "trace" / "trace.json"
    return (entry for entry in json.loads(file.read_text())["traceEvents"] if entry["ph"] == "X")


@pytest.mark.parametrize("execution", [LOCAL, DASK], ids=["local", "dask"])
def test_the_trace_has_every_task_with_its_stages(user: Desk, execution: str) -> None:
    found = run(flow(user, execution=f"{execution}, modifiers: [trace]"), workers=2 if execution == LOCAL else None)
    entries = list(spans(found))
    tasks = [entry for entry in entries if entry["cat"] == "task"]
    assert len(tasks) == found.summary["tasks"]["total"]
    stages = [entry["name"] for entry in entries if entry["cat"] == "stage"]
    assert {name: stages.count(name) for name in stages} == {"First": TASKS, "Second": TASKS, "H": TASKS}
    assert sum(task["args"]["events"] for task in tasks) == 2000


def test_a_run_that_fails_has_a_trace_that_says_where(user: Desk) -> None:
    found = run(flow(user, first="[trace]", second="[custom.raises]"), keep_going=True)
    failed = [entry for entry in spans(found) if entry["cat"] == "failed"]
    assert len(failed) == 2
    assert all("this modifier is broken" in entry["args"]["failure"] for entry in failed)


def test_cache_has_nothing_to_measure(user: Desk) -> None:
    file = str(flow(user, first="[cache]"))
    for _ in range(2):
        told = user.typed("run", file, "--out", "out").stdout
        assert "cache" not in told
        assert '<section id="modifiers"' not in (user.folder / "out" / "report.html").read_text()


def test_a_later_run_leaves_no_files_of_an_earlier_process(user: Desk) -> None:
    file = flow(user, second="[{name: profile, params: {functions: true}}]")
    folder = run(file).folder / "debug" / "modifiers" / "profile" / "Second"
    (folder / "elsewhere-1.functions.txt").write_text("old")
    run(file)
    assert (folder / "elsewhere-1.functions.txt").exists(), "nothing ran, so nothing new is there"
    run(file, force=["First"])
    assert [path.read_text()[:3] for path in folder.iterdir()] != []
    assert not (folder / "elsewhere-1.functions.txt").exists()
