"""Test `cenote env`: pack, list, show, verify, clean."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from builders.small_prefixes import small_conda_prefix
from cenote.cli.main import cli
from cenote.cli.views.progress.live import PackingLines, packing_bar, progress_on
from cenote.common.errors import CenoteError
from cenote.execution.packing.archive import PackingStep, unheard
from cenote.execution.packing.software import Software
from cenote.execution.packing.stock import Packed, Stock, StockRecord, Wanted
from cenote.execution.packing.write import Member, write_archive

WORKFLOW = """\
version: "1.0"
data: {datasets: [{name: d, files: nothing.root}]}
sources: {events: {kind: root_tree, tree: Events}}
analysis:
  stages:
    - {id: All, op: filter, params: {expr: "x > 1"}}
execution:
  backend: dask
  environment: {type: packed-conda, prefix: PREFIX}
  pools:
    default: {strategy: local}
    gpu: {strategy: local, environment: current}
"""


@pytest.fixture(autouse=True)
def stock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stock:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "140")
    return Stock()


def add(stock: Stock, content: str, source: str = "/the/prefix") -> StockRecord:
    def pack(file: Path, _: Path) -> Packed:
        written = write_archive(file, [Member("file", content.encode())], "gzip", unheard, total=1)
        return Packed(written, Software("3.12.1", "linux-64", {"numpy": "2.1"}), facts={"lock": "abc"})

    return stock.obtain(Wanted("packed-conda", content, "gzip", source), pack, unheard)


def typed(*words: str) -> Result:
    return CliRunner().invoke(cli, ["env", *words])


def told(*words: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(typed(*words, "--json").stdout)
    return found


def test_a_workflow_is_packed_without_its_data_and_found_the_next_time(tmp_path: Path, stock: Stock) -> None:
    prefix = small_conda_prefix(tmp_path / "prefix")
    flow = tmp_path / "flow.yaml"
    flow.write_text(WORKFLOW.replace("PREFIX", str(prefix)))
    first = typed("pack", str(flow))
    assert first.exit_code == 0, first.output
    assert "packed-conda: compressing" in first.stderr
    assert "nothing to pack" in first.stdout
    again = typed("pack", str(flow), "--json")
    pools = json.loads(again.stdout)["pools"]
    assert (pools["default"]["type"], pools["gpu"]["type"]) == ("packed-conda", "current")
    assert pools["default"]["digest"] in {record.digest for record in stock.records()}
    assert "compressing" not in typed("pack", str(flow)).stderr


def test_what_cannot_be_packed_is_an_error_of_its_own(tmp_path: Path) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text(WORKFLOW.replace("PREFIX", str(tmp_path / "missing")))
    result = typed("pack", str(flow))
    assert isinstance(result.exception, CenoteError)
    assert result.exception.problems[0].kind.name == "bad-environment"


def test_it_lists_what_was_packed(stock: Stock) -> None:
    assert "no archives" in typed("list").stdout
    record = add(stock, "one")
    line = typed("list").stdout.splitlines()[1].split()
    assert line[:2] == [record.digest[:12], "packed-conda"]
    assert line[-1] == "/the/prefix"
    (listed,) = told("list")["archives"]  # type: ignore[misc]  # JSON
    assert (listed["digest"], listed["packages"]) == (record.digest, {"numpy": "2.1"})


def test_it_shows_an_archive_by_the_beginning_of_its_digest(stock: Stock) -> None:
    record = add(stock, "one")
    shown = typed("show", record.digest[:6]).stdout
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert {f"digest {record.digest}", "platform linux-64", "lock abc", "numpy 2.1"} <= set(lines)
    assert told("show", record.digest)["file"] == str(stock.folder / record.file_name)


def test_a_digest_that_is_none_or_several_is_refused(stock: Stock) -> None:
    add(stock, "one"), add(stock, "two")
    for name, words in {"xyz": "no archive has", "": "several archives have"}.items():
        assert words in str(typed("show", name).exception)


def test_a_damaged_archive_is_found_and_packed_anew(stock: Stock) -> None:
    record = add(stock, "one")
    assert "no damage" in typed("verify").stdout
    file = stock.folder / record.file_name
    file.write_bytes(bytes(record.size))
    result = typed("verify")
    assert "damaged" in str(result.exception)
    assert stock.records() == []
    add(stock, "one")
    file.write_bytes(bytes(record.size))
    answer = CliRunner().invoke(cli, ["env", "verify", "--json"])
    assert json.loads(answer.stdout)["ok"] is False


def test_it_cleans_by_name_by_age_or_all(stock: Stock) -> None:
    first, second = add(stock, "one"), add(stock, "two")
    assert "removed no archives" in typed("clean").stdout  # they are younger than a month
    assert "removed 1 archive" in typed("clean", first.digest).stdout
    assert [record.digest for record in stock.records()] == [second.digest]
    assert "removed 1 archive" in typed("clean", "--older-than", "0s").stdout
    add(stock, "three")
    assert len(told("clean", "--all")["removed"]) == 1  # type: ignore[arg-type]  # JSON
    assert "--older-than" in str(typed("clean", "--older-than", "soon").exception)


def test_unused_is_what_its_source_has_a_newer_one_of(stock: Stock) -> None:
    add(stock, "one")
    newer, other = add(stock, "two"), add(stock, "three", source="/another")
    typed("clean", "--unused")
    assert {record.digest for record in stock.records()} == {newer.digest, other.digest}


def test_what_is_in_use_is_kept_and_told(stock: Stock) -> None:
    held = stock.hold(add(stock, "one"))
    assert "kept 1 archive" in typed("clean", "--all").stdout
    del held


def test_packing_is_told_in_lines_where_nothing_can_be_drawn_anew() -> None:
    console, now = Console(file=io.StringIO(), width=100), [0.0]
    lines = PackingLines(console, lambda: now[0])
    for second in range(12):
        now[0] = float(second)
        lines(PackingStep("compressing", second * 10_000_000, 467_000_000))
    text = console.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    assert [line.partition(", ")[2] for line in text.splitlines()] == [
        *("0 B of 467 MB", "50 MB of 467 MB", "100 MB of 467 MB"),
    ]


def test_packing_is_a_bar_with_sizes_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(packing_bar("flow.yaml", PackingStep("compressing", 120_000_000, 467_000_000)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    assert "flow.yaml compressing, 120 MB of 467 MB" in shown
    assert "━" in shown
    with progress_on(Console(file=io.StringIO(), width=100), quiet=True) as silent:
        silent.packing(PackingStep("compressing"))
