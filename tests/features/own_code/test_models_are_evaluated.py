"""Models give the same numbers everywhere, count for the results, and reach workers that do not see them."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

import cenote
from builders.onnx_models import dense, layers
from cenote.common import software

from ..conftest import Desk

EXAMPLE = Path(__file__).parents[3] / "examples" / "three_pools"
CHUNKS = "sources={events: {kind: root_tree, chunk_size: 700}}"
FLOW = """
    data: {datasets: [{name: d, files: ["*.root"]}]}
    analysis:
      stages:
        - id: Score
          op: hep.inference
          params: {model: models/score.onnx, inputs: [nMuon, HLT], outputs: score}
        - id: Scores
          op: hep.hist
          params: {axes: [{name: s, source: score, bins: {nbins: 20, low: 0, high: 1}}]}
          render: []
        - id: N
          op: hep.hist
          needs: []
          params: {axes: [{name: n, source: nMuon, bins: {nbins: 5, low: 0, high: 5}}]}
          render: []
          execution: {require: other}
    execution: {pools: {default: {workers: 1}, other: {workers: 1}}}
"""


@pytest.fixture
def flow(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(desk.folder)
    desk.muons("a.root", events=500)
    (desk.folder / "models").mkdir()
    (desk.folder / "models" / "score.onnx").write_bytes(dense(layers(2, 8, 1)))
    return desk.write("flow.yaml", FLOW)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The example of three pools, with little data."""
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("data", "out", "model.onnx", "__pycache__"))
    script = folder / "make_data.py"
    script.write_text(script.read_text().replace("EVENTS, FILES = 20_000", "EVENTS, FILES = 2_000"))
    runpy.run_path(str(script))["write"](folder / "data")
    return folder


def ran(run: cenote.Run) -> set[str]:
    """The stages that did something."""
    assert run.status == "succeeded", str(run.failures)
    stages: list[dict[str, Any]] = run.summary["stages"]
    return {stage["id"] for stage in stages if sum(stage["pools"].values())}


def bits(run: cenote.Run) -> list[bytes]:
    """What the scores are, and the model where one was trained."""
    assert run.status == "succeeded", str(run.failures)
    trained = [run.product("TrainModel")] if "TrainModel" in run.products else []
    return [run.product("Score").view(flow=True).tobytes(), *trained]


@pytest.mark.parametrize("workflow", ["signal.yaml", "training.yaml"])
def test_one_worker_many_or_dask_give_the_same_bits(example: Path, tmp_path: Path, workflow: str) -> None:
    sets = [CHUNKS, f"plugins=[{example / 'ops.py'}]"]
    alone = bits(cenote.load(example / workflow, sets=sets).run(tmp_path / "one", workers=1))
    assert bits(cenote.load(example / workflow, sets=sets).run(tmp_path / "many", workers=4)) == alone
    assert bits(cenote.load(example / workflow, sets=sets, backend="dask").run(tmp_path / "dask")) == alone


def test_scores_do_not_depend_on_the_chunk_size(flow: Path) -> None:
    found = [
        cenote.load(flow, sets=[f"sources={{events: {{kind: root_tree, chunk_size: {size}}}}}"]).run(f"out-{size}")
        for size in (7, 130, 100_000)
    ]
    assert len({run.product("Scores").view(flow=True).tobytes() for run in found}) == 1


def test_only_what_uses_a_changed_model_is_computed_again(flow: Path) -> None:
    before = cenote.load(flow).run("out").product("Scores")
    assert ran(cenote.load(flow).run("out")) == set()
    (flow.parent / "models" / "score.onnx").write_bytes(dense(layers(2, 8, 1, seed=2)))
    again = cenote.load(flow).run("out")
    assert ran(again) == {"Score", "Scores"}
    assert again.product("Scores") != before


def test_scores_of_another_onnxruntime_are_computed_again(flow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cenote.load(flow).run("out")
    assert ran(cenote.load(flow).run("out")) == set()
    here = software.installed_packages()
    monkeypatch.setattr("cenote.planning.stages.columns.installed_packages", lambda: here | {"onnxruntime": "0.0.1"})
    assert ran(cenote.load(flow).run("out")) == {"Score", "Scores"}


HIDE = """
    from pathlib import Path
    from cenote import operation

    @operation("custom.hide", reads=["nMuon"], adds=["hidden"])
    def hide(events, *, path: str):
        Path(path).unlink(missing_ok=True)
        return {"hidden": events["nMuon"]}
"""


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_a_model_reaches_workers_that_do_not_see_it(desk: Desk, flow: Path, backend: str) -> None:
    model = desk.folder / "models" / "score.onnx"
    first = f"{{id: Hide, op: custom.hide, params: {{path: '{model}'}}, execution: {{require: other}}}}"
    desk.write("hide.py", HIDE)
    text = f"    plugins: [hide.py]{FLOW}".replace("stages:\n", f"stages:\n        - {first}\n")
    run = cenote.load(desk.write("hidden.yaml", text), backend=backend).run("unseen")
    assert run.status == "succeeded", str(run.failures)
    assert not model.exists()
    model.write_bytes(dense(layers(2, 8, 1)))
    assert run.product("Scores") == cenote.load(flow).run("seen").product("Scores")


@pytest.mark.parametrize(
    ("setting", "code", "words"),
    [
        ("model=models/scor.onnx", 10, ("flow.yaml", "which is not there", "did you mean 'score.onnx'?")),
        ("model=flow.yaml", 10, ("'flow.yaml' is not an ONNX model",)),
        ("inputs=[HLT]", 10, ("'x' takes 2 columns, not 1", "inputs: x: float (N, 2)", "outputs: y: float (N, 1)")),
        ("outputs={z: score}", 10, ("it has no output 'z'",)),
        ("model={stage: Train}", 11, ("stage 'Train', which does not exist",)),
        ("model={stage: N}", 10, ("without needing it", "write `needs: [N]`")),
        ("inputs=[HLT, nMuons]", 11, ("'nMuons'", "did you mean 'nMuon'?")),
    ],
)
def test_what_does_not_fit_is_a_problem_of_check(
    desk: Desk, flow: Path, setting: str, code: int, words: tuple[str, ...]
) -> None:
    checked = desk.typed("check", flow.name, "--set", f"analysis.stages.Score.params.{setting}")
    assert checked.returncode == code, checked.stderr
    assert all(word in checked.stderr for word in words), checked.stderr


def test_a_stage_that_hands_no_product_on_is_no_model(desk: Desk, flow: Path) -> None:
    sets = ["analysis.stages.Score.params.model={stage: N}", "analysis.stages.Score.needs=[N]"]
    checked = desk.typed("check", flow.name, *(word for one in sets for word in ("--set", one)))
    assert "uses the product of stage 'N', which hands none on" in checked.stderr


def test_software_that_workers_will_lack_is_a_problem_before_the_run(
    desk: Desk, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name, _package=None: None)
    checked = desk.typed("check", flow.name)
    assert checked.returncode == 30
    assert "stage 'Score' needs onnxruntime, which is not installed" in checked.stderr
    assert "pip install 'cenote[ml]'" in checked.stderr
    elsewhere = ["--backend", "dask", "--set", f"execution.environment={{type: shared, prefix: {desk.folder}}}"]
    assert "onnxruntime" not in desk.typed("check", flow.name, *elsewhere).stderr
