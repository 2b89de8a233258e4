"""Check what `check` says of branches that are there and cannot be used, and that the others can."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cenote
from builders.root_files import Branch, LeafOfBytes, flat, lorentz_vector, objects, write_root_file
from cenote.common import errors
from cenote.common.errors import CenoteError, Problem

BRANCHES = [
    flat("a.b", "i4", [1, 2, 3]),
    flat("a_b", "i4", [4, 5, 6]),
    flat("x", "f8", [1, 2, 3]),
    Branch("never", (LeafOfBytes("never", "f4"),)),
    objects("odd", "Mystery", [b"odd!"] * 3),
    objects("p4", "TLorentzVector", [lorentz_vector(n, 0, 0, n + 1) for n in range(3)]),
    Branch("ss.", branches=(flat("ss.n", "i4", [7, 8, 9]),)),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_root_file(tmp_path / "a.root", {"Events": (3, BRANCHES)})
    return tmp_path


def workflow(folder: Path, *stages: str, more: str = "", file: str = "a.root") -> cenote.Analysis:
    written = "".join(f"    - {stage}\n" for stage in stages)
    (folder / "flow.yaml").write_text(
        f"data: {{datasets: [{{name: d, files: [{file}]}}]}}\n{more}analysis:\n  stages:\n{written}"
    )
    return cenote.load(folder / "flow.yaml")


def problem_of(folder: Path, expression: str, *, file: str = "a.root", more: str = "") -> Problem:
    stage = f"{{id: A, op: filter, params: {{expr: '{expression} > 0'}}}}"
    (found,) = workflow(folder, stage, file=file, more=more).check().problems
    return found


@pytest.mark.parametrize("name", ["a.b", "a_b"])
def test_branches_that_differ_only_in_dots_are_an_error_where_one_is_used(folder: Path, name: str) -> None:
    found = problem_of(folder, name)
    assert found.kind is errors.COLUMN_CLASH
    assert f"stage 'A' reads '{name}': 'a.b' and 'a_b' differ only in '.' and '_'" in found.message
    assert found.place is not None
    assert "`fields`" in (found.hint or "")


def test_so_are_columns_of_a_parquet_file(folder: Path) -> None:
    table = pa.table({"a": [{"b": 1}, {"b": 2}], "a_b": [3, 4], "x": [5, 6]})
    pq.write_table(table, folder / "a.parquet")
    parquet = "sources: {events: {kind: parquet}}\n"
    assert problem_of(folder, "a.b", file="a.parquet", more=parquet).kind is errors.COLUMN_CLASH
    stage = "{id: A, op: filter, params: {expr: x > 5}}"
    assert not workflow(folder, stage, file="a.parquet", more=parquet).check().problems


@pytest.mark.parametrize(
    ("name", "reason"), [("never", "was never filled"), ("odd", "holds Mystery, which no column of numbers or texts")]
)
def test_a_branch_without_values_is_named_with_the_reason(folder: Path, name: str, reason: str) -> None:
    for _ in range(2):  # the second time, metadata comes from the cache
        found = problem_of(folder, name)
        assert found.kind is errors.BAD_INPUT
        assert f"stage 'A' reads '{name}': branch '{name}' {reason}" in found.message
        assert found.details == (f"file: {folder / 'a.root'}",)


@pytest.mark.parametrize(
    ("branch", "reason"),
    [("odd", "reads 'mine': branch 'odd' holds Mystery"), ("xx", "maps to the branch 'xx': no file has it")],
)
def test_an_alias_of_such_a_branch_is_refused_by_check_as_by_the_plan(folder: Path, branch: str, reason: str) -> None:
    fields = f"fields: {{mine: {{branch: {branch}}}}}\n"
    analysis = workflow(folder, "{id: A, op: filter, params: {expr: mine > 0}}", more=fields)
    (problem,) = analysis.check().problems
    assert reason in problem.message
    assert problem.place is not None
    with pytest.raises(CenoteError) as caught:
        analysis.plan()
    assert caught.value.problems == (problem,)


def test_an_alias_of_no_branch_that_is_not_used_is_no_problem(folder: Path) -> None:
    analysis = workflow(folder, "{id: A, op: filter, params: {expr: x > 0}}", more="fields: {mine: nothing}\n")
    assert analysis.check().ok
    assert analysis.plan().tasks


FIELDS = """\
fields:
  dotted: {branch: a.b}
  plain: {branch: a_b}
  inner: {branch: "ss./ss.n"}
"""
CHECKED = """\
{id: A, op: filter, params: {expr: "(dotted == 1) * (plain == 4) * (inner == 7) + (x == 2) > 0"}}
{id: B, op: define, params: {m2: "p4.fE**2 - p4.fP.fX**2"}}
{id: C, op: filter, params: {expr: "m2 > 0"}, write: {kind: parquet, path: "skim"}}
"""


def test_the_others_are_read_and_written(folder: Path) -> None:
    run = workflow(folder, *CHECKED.splitlines(), more=FIELDS).run(folder / "out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    (skim,) = (folder / "out").rglob("*.parquet")
    table = pq.read_table(skim)
    assert table.column("dotted").to_pylist() == [1, 2]
    assert table.column("plain").to_pylist() == [4, 5]
    assert table.column("inner").to_pylist() == [7, 8]
    assert table.column("m2").to_pylist() == [1.0, 3.0]
    assert {"x", "p4_fE", "ss_n"} <= set(table.column_names)
    assert not {"odd", "never", "a_b", "a.b"} & set(table.column_names)
