"""Test the last words of a run: what it left, what failed, what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from cenote.cli.views.outcome import failure_lines, one_of_each, outcome_lines
from cenote.execution.runs.summary import Summary

FOLDER = Path("out/flow")
AGAIN = "cenote run flow.yaml --out out/flow"


def a_summary(**changes: Any) -> dict[str, Any]:
    tasks = {"total": 120, "done": 120, "failed": 0, "reused": 0, "running": 0, "waiting": 0, "seconds": 9.0}
    values: dict[str, Any] = {
        "status": "succeeded",
        "seconds": 3.2,
        "tasks": tasks,
        "retries": 0,
        "events": 1_200_000,
        "peak_memory": 310_000_000,
        "products": [{"name": "MuonPt", "kind": "histogram", "description": "1 axis, 50 bins", "partial": False}],
        "fallbacks": [],
        "failures": [],
        "warnings": [],
    }
    return {**values, **changes}


def a_failure(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "stage": "RunInference",
        "cause": "error",
        "kind": "stage-failed",
        "message": "ValueError: no model",
        "dataset": "muons",
        "file": "data/muons_1.root",
        "entries": [5000, 10000],
        "traceback": 'File "ops.py", line 12, in run\n',
        "attempts": 1,
    }
    return {**values, **changes}


def told(summary: dict[str, Any], pictures: tuple[Path, ...] = ()) -> str:
    record = msgspec.convert(summary, Summary)
    return "\n".join(line.plain for line in outcome_lines(record, folder=FOLDER, pictures=pictures))


def failures(summary: dict[str, Any]) -> str:
    record = msgspec.convert(summary, Summary)
    return "\n".join(line.plain for line in failure_lines(record, folder=FOLDER, again=AGAIN))


def test_a_success_says_what_it_left() -> None:
    pictures = (FOLDER / "plots/muon_pt.pdf", FOLDER / "plots/muon_pt.png")
    assert told(a_summary(), pictures).splitlines() == [
        "succeeded in 3.2 s: 120 tasks, 1.2 M events, peak memory 310 MB per task",
        "  products  MuonPt (histogram, 1 axis, 50 bins)",
        "            all in out/flow/products",
        "  pictures  out/flow/plots/muon_pt.png",
    ]
    assert failures(a_summary()) == ""


def test_lost_workers_are_in_the_last_line_with_the_reason_of_the_last_one() -> None:
    pool = {"name": "gpu", "workers_started": 3, "workers_lost": 2, "last_loss": "killed by SIGKILL"}
    lines = told(a_summary(pools=[pool, {"name": "default"}])).splitlines()
    assert "120 tasks, 2 workers lost, 1.2 M events" in lines[0]
    assert lines[-1] == "  lost      2 workers of gpu, the last one: killed by SIGKILL"


def test_what_was_reused_and_tried_again_is_told() -> None:
    summary = a_summary(retries=2)
    summary["tasks"] = {**summary["tasks"], "reused": 100}
    assert "120 tasks, 100 of them reused, 2 tried again" in told(summary)


def test_a_partial_product_is_marked() -> None:
    products = [{"name": "MuonPt", "kind": "histogram", "description": "", "partial": True}]
    assert "MuonPt (histogram) partial" in told(a_summary(products=products))


def test_fallbacks_are_added_up() -> None:
    moves = [{"stage": "Score", "task": task, "from": "gpu", "to": "default", "reason": "x"} for task in range(3)]
    assert "Score: gpu → default (3 tasks)" in told(a_summary(fallbacks=moves))


def test_a_failure_names_stage_file_events_and_what_to_do_next() -> None:
    summary = a_summary(status="failed", failures=[a_failure(attempts=3)])
    summary["tasks"] = {**summary["tasks"], "done": 119, "kept": 119, "failed": 1}
    assert failures(summary).splitlines() == [
        (
            "RunInference raised an exception on data/muons_1.root, events 5,000 to 10,000 (dataset muons): "
            "ValueError: no model [3 attempts]"
        ),
        '    File "ops.py", line 12, in run',
        (
            f"next: fix it, then `{AGAIN}`, which keeps 119 finished tasks; `--keep-going` processes"
            " the remaining data anyway"
        ),
    ]


def test_a_workspace_that_failed_needs_no_file() -> None:
    failure = {"stage": "MuonPt", "cause": "error", "message": "no axis", "kind": "render-failed"}
    told = failures(a_summary(status="partial", failures=[failure]))
    assert told.startswith("MuonPt could not be written out: no axis")


def test_failures_that_are_alike_are_told_once() -> None:
    alike = [a_failure(file=f"data/muons_{number}.root") for number in range(1, 8)]
    told = failures(a_summary(status="partial", failures=alike)).splitlines()
    assert told[0].startswith("RunInference raised an exception on data/muons_1.root")
    assert told[2] == (
        "    and likewise on 6 more partitions, also of data/muons_2.root, data/muons_3.root, data/muons_4.root"
        " and 3 more"
    )
    assert told[3].startswith("next: ")


def test_many_kinds_of_failure_are_cut_short() -> None:
    many = [a_failure(message=f"ValueError: {number}") for number in range(50)]
    assert "… and 40 more kinds of failure, all in out/flow/summary.json" in failures(
        a_summary(status="partial", failures=many)
    )


def test_a_cancelled_run_says_how_to_continue() -> None:
    summary = a_summary(status="cancelled")
    summary["tasks"] = {**summary["tasks"], "done": 2, "kept": 1}
    assert failures(summary) == f"next: continue with `{AGAIN}`, which keeps 1 finished task"


def test_no_run_promises_to_keep_what_only_its_workers_had() -> None:
    summary = a_summary(status="cancelled")
    summary["tasks"] = {**summary["tasks"], "done": 16, "kept": 0}
    assert failures(summary) == f"next: continue with `{AGAIN}`"


def test_tables_stand_for_themselves_among_pictures() -> None:
    paths = [Path("plots/a.png"), Path("plots/a.pdf"), Path("plots/cutflow.csv")]
    assert one_of_each(paths) == [Path("plots/a.png"), Path("plots/cutflow.csv")]
