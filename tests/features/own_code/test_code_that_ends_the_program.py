"""`sys.exit()` in somebody's code is a failure of that code: it ends neither the run nor whoever asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote
from cenote.common.errors import CenoteError

from ..conftest import Desk

OPS = """
    import os
    from pathlib import Path
    from typing import ClassVar
    from cenote import operation
    from cenote.analysis.renderers.interface import Renderer
    from cenote.analysis.sinks.parquet import ParquetSink
    from cenote.analysis.sources.root_tree.source import RootTreeSource

    HERE = Path(__file__).parent

    class Odd(BaseException):
        "Not an Exception, as some libraries have them."

    ENDS = {"exit": SystemExit(), "words": SystemExit("enough"), "keyboard": KeyboardInterrupt(), "odd": Odd("odd")}

    def end_at(place):
        for file in HERE.glob(f"end-{place}-*"):
            how = file.name.rpartition("-")[2]
            if how == "died":
                os._exit(7)
            raise ENDS[how]

    end_at("import")

    class Own:
        def prepare(self):
            end_at("prepare")

        def run(self, events):
            end_at("run")
            return {"own": events["MET_pt"] * 2}

    operation("custom.own", reads=["MET_pt"], adds=["own"])(Own)

    def merged(parts):
        end_at("merge")
        return sum(parts)

    def columns(params):
        end_at("reads")
        return ["own"]

    @operation("custom.count", reads=columns, product="number", merge=merged)
    def count(events):
        return len(events["own"])

    class OwnSource(RootTreeSource):
        "Reads."
        cenote_plugin: ClassVar = ("source", "own_tree")

        def describe(self, url):
            end_at("describe")
            return super().describe(url)

        def read(self, *given):
            end_at("read")
            return super().read(*given)

    class OwnSink(ParquetSink):
        "Writes."
        cenote_plugin: ClassVar = ("sink", "own_file")

        def write(self, events, target):
            end_at("write")
            super().write(events, target)

    class OwnPicture(Renderer):
        "Draws."
        cenote_plugin: ClassVar = ("renderer", "own_picture")
        draws: ClassVar = ("histogram",)

        def draw(self, product, target, context):
            end_at("draw")
            return []
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: own_tree, chunk_size: 500}}
    analysis:
      stages:
        - {id: Own, op: custom.own, write: {kind: own_file, path: skim.parquet}}
        - {id: Count, op: custom.count}
        - id: H
          op: hep.hist
          params: {axes: [{name: x, type: regular, source: own, bins: {nbins: 20, low: 0, high: 200}}]}
          render: {op: own_picture}
    execution: {pools: {default: {workers: 1}}}
"""
BACKENDS: dict[str, tuple[str, int | None]] = {"here": ("local", None), "local": ("local", 2), "dask": ("dask", None)}
SAID = {"exit": "SystemExit", "words": "SystemExit: enough", "keyboard": "KeyboardInterrupt", "odd": "Odd: odd"}


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=1000)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def run(flow: Path, backend: str) -> cenote.Run:
    name, workers = BACKENDS[backend]
    return cenote.load(flow, backend=name).run(flow.parent / "out", workers=workers)


@pytest.mark.parametrize("how", SAID)
@pytest.mark.parametrize("backend", BACKENDS)
def test_in_an_operation_it_is_a_failure_of_the_stage(desk: Desk, flow: Path, backend: str, how: str) -> None:
    (desk.folder / f"end-run-{how}").touch()
    ended = run(flow, backend)
    assert (ended.status, ended.exit_code) == ("failed", 20)
    assert {failure["stage"] for failure in ended.failures} == {"Own"}
    assert SAID[how] in ended.failures[0]["message"]
    assert "ops.py" in ended.failures[0]["traceback"]


@pytest.mark.parametrize(
    ("place", "stage"), [("prepare", "Own"), ("read", "Own"), ("write", "Own"), ("merge", "Count")]
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_in_other_code_of_a_stage_too(desk: Desk, flow: Path, backend: str, place: str, stage: str) -> None:
    (desk.folder / f"end-{place}-words").touch()
    ended = run(flow, backend)
    assert ended.status == "failed"
    assert {failure["stage"] for failure in ended.failures} == {stage}
    assert "SystemExit: enough" in ended.failures[0]["message"]


def test_in_a_renderer_the_product_has_no_picture(desk: Desk, flow: Path) -> None:
    (desk.folder / "end-draw-words").touch()
    ended = run(flow, "here")
    assert (ended.status, ended.exit_code, ended.failures) == ("succeeded", 0, [])
    assert [words for words in ended.warnings if "stage 'H' has no picture" in words and "SystemExit: enough" in words]
    assert set(ended.products) == {"Own:files", "Count", "H"}


@pytest.mark.parametrize("how", SAID)
def test_at_the_top_of_a_plugin_it_is_a_bad_plugin(desk: Desk, flow: Path, how: str) -> None:
    (desk.folder / f"end-import-{how}").touch()
    with pytest.raises(CenoteError, match=f"plugin file ops.py fails: {SAID[how]}"):
        cenote.load(flow).run(desk.folder / "out")
    found = cenote.load(flow).check()
    assert "bad-plugin" in {problem.kind.name for problem in found.problems}
    typed = desk.typed("run", str(flow))
    assert typed.returncode == 12
    assert "ops.py:" in typed.stderr


@pytest.mark.parametrize("how", SAID)
def test_in_the_names_of_columns_it_is_a_bad_plugin(desk: Desk, flow: Path, how: str) -> None:
    (desk.folder / f"end-reads-{how}").touch()
    found = cenote.load(flow).check()
    assert [problem.kind.name for problem in found.problems] == ["bad-plugin"]
    assert f"operation 'custom.count' fails: {SAID[how]}" in found.problems[0].message


@pytest.mark.parametrize("how", SAID)
def test_in_a_source_that_looks_at_a_file_it_is_a_problem_with_that_file(desk: Desk, flow: Path, how: str) -> None:
    (desk.folder / f"end-describe-{how}").touch()
    found = cenote.load(flow).check()
    assert [problem.kind.name for problem in found.problems] == ["bad-input"]
    assert "a.root" in found.problems[0].message
    assert SAID[how] in found.problems[0].message


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_a_process_that_is_ended_in_the_middle_is_a_lost_worker(desk: Desk, flow: Path, backend: str) -> None:
    (desk.folder / "end-run-died").touch()
    flow.write_text(flow.read_text().replace("chunk_size: 500", "chunk_size: 1000"))  # one task, tried by few workers
    ended = run(flow, backend)
    assert (ended.status, ended.exit_code) == ("failed", 21)
    assert {failure["cause"] for failure in ended.failures} == {"lost"}


def test_a_small_run_with_code_of_its_own_that_ends_the_process_is_told_too(desk: Desk, flow: Path) -> None:
    (desk.folder / "end-run-died").touch()
    typed = desk.cenote("run", str(flow), "--out", "out")
    assert typed.returncode == 21
    assert cenote.open_run(desk.folder / "out").status == "failed"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_child_that_is_forked_and_let_go_does_not_do_the_task_too(desk: Desk, flow: Path, backend: str) -> None:
    desk.write("ops.py", OPS.replace('end_at("run")', "os.fork()"))
    name, workers = BACKENDS[backend]
    words = ["--backend", name, *(["--workers", str(workers)] if workers else [])]
    told = desk.cenote("run", str(flow), "--out", "out", *words)
    assert told.returncode == 0, told.stderr
    assert cenote.open_run(desk.folder / "out").product("Count") == 1000


ODD_TEXTS = {
    "bytes of a file name": ("ValueError('no \\udcff')", "ValueError: no \\udcff"),
    "no text at all": ("Silent()", "Silent: (its message cannot be read)"),
}


@pytest.mark.parametrize("place", ["run", "draw", "import"])
@pytest.mark.parametrize("odd", ODD_TEXTS)
def test_whatever_text_an_exception_has_it_is_a_failure_of_that_code(
    desk: Desk, flow: Path, place: str, odd: str
) -> None:
    raised, said = ODD_TEXTS[odd]
    silent = """
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError
        __repr__ = __str__

    def end_at(place):"""
    desk.write(
        "ops.py", OPS.replace("\n    def end_at(place):", silent).replace(f'end_at("{place}")', f"raise {raised}")
    )
    own_process = "\\udcff" in said  # whose streams cannot write such a text as it is
    told = (desk.cenote if own_process else desk.typed)("run", str(flow), "--out", "out")
    assert told.returncode == {"run": 20, "draw": 0, "import": 12}[place], told.stderr
    assert said in told.stderr


def test_a_plugin_that_changes_the_working_directory_moves_neither_data_nor_output(desk: Desk, flow: Path) -> None:
    (desk.folder / "elsewhere").mkdir()
    desk.write("ops.py", OPS.replace('end_at("import")', 'os.chdir(HERE / "elsewhere")'))
    told = desk.cenote("run", flow.name, "--out", "out")
    assert told.returncode == 0, told.stderr
    assert (desk.folder / "out" / "summary.json").exists()
    assert list((desk.folder / "elsewhere").iterdir()) == []
