"""`cuda.jit` computes the same on the CPU, in Numba's simulator and, as far as a compiler can tell, on a GPU."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cenote import kernel, operation
from cenote.analysis.modifiers.cuda.jit import Jit
from cenote.analysis.modifiers.interface import StageCall
from cenote.analysis.modifiers.support import cuda_kernels
from cenote.analysis.modifiers.support.cuda_kernels import Cuda, exact_arithmetic, find_cuda, kernel_function
from cenote.analysis.modifiers.support.devices import SIMULATOR, NoDevice
from cenote.analysis.operations.define import Define
from cenote.analysis.operations.support.kernels import Kernel
from cenote.common.errors import CenoteError
from cenote.execution.worker.failure import ModifierFailure
from cenote.execution.worker.modified import run_modified
from cenote.testing.sample_events import sample_events

HERE = Path(__file__).parent
DOUBLE = Define(variables={"twice": "2 * MET_pt"})


def a_call(**more: Any) -> StageCall:
    return StageCall("cuda.jit", "Stage", DOUBLE, ("MET_pt",), ("twice",), measures=Jit.measures, **more)


# Values: the simulator reads its variable when Numba is imported, so it gets a process of its own.


def test_kernels_give_what_their_operations_give_in_the_simulator() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / "cuda_simulator_checks.py"]
    done = subprocess.run(command, env={**os.environ, SIMULATOR: "1"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert re.search(r"\d+ passed", done.stdout)


# Compilation: NVIDIA's compiler and assembler need no GPU.

ARCHITECTURES = {"V100": (7, 0), "A100": (8, 0), "H100": (9, 0)}


def of_value(Muon_pt, MET_pt, factor):  # type: ignore[no-untyped-def]  # noqa: N803  # columns; compiled for any type
    return math.sqrt(Muon_pt * Muon_pt + MET_pt * MET_pt) * factor


def of_event(pt):  # type: ignore[no-untyped-def]  # compiled for any type
    total = 0.0
    for value in pt:
        total += value * value
    return total


def assembled(
    made: Kernel, in_lists: tuple[bool, ...], architecture: tuple[int, int], monkeypatch: Any, tmp_path: Path
) -> str:
    """The assembly of a kernel, which ptxas has taken."""
    if os.environ.get(SIMULATOR) == "1":
        pytest.skip("Numba simulates here, and compiles nothing")
    numba = pytest.importorskip("numba")
    from numba import cuda

    device = SimpleNamespace(compute_capability=architecture)
    monkeypatch.setattr("numba.cuda.dispatcher.get_current_device", lambda: device)
    arrays = [numba.types.Array(numba.float64, 1, "C") for _ in in_lists]
    place = [numba.types.Array(numba.int64, 1, "C")] if any(in_lists) else []
    types = (numba.types.Array(numba.float64, 1, "C"), *place, *arrays, *[numba.float64] * len(made.constants))
    with exact_arithmetic():
        text, _ = cuda.compile_ptx(kernel_function(cuda, made, in_lists), types, cc=architecture)
    (tmp_path / "kernel.ptx").write_text(text)
    found = find_spec("nvidia.cuda_nvcc")
    assert found is not None
    assert found.submodule_search_locations
    ptxas = Path(found.submodule_search_locations[0]) / "bin" / "ptxas"
    arch = f"-arch=sm_{architecture[0]}{architecture[1]}"
    subprocess.run([ptxas, arch, tmp_path / "kernel.ptx", "-o", tmp_path / "kernel.cubin"], check=True, timeout=120)
    assert (tmp_path / "kernel.cubin").stat().st_size > 1000
    return str(text)


@pytest.mark.parametrize("gpu", ARCHITECTURES)
@pytest.mark.parametrize("kind", ["events", "elements", "both", "per event", "expression"])
def test_kernels_compile_for_gpus_of_several_years(
    kind: str, gpu: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expression = Define(variables={"x": "where(MET_px > 3, sqrt(MET_px**2 + MET_py**2), -MET_py)"})
    kernels: dict[str, tuple[Kernel, tuple[bool, ...]]] = {
        "events": (kernel(of_value, "float64").with_params({"factor": 2.0}), (False, False)),
        "elements": (kernel(of_value, "float64").with_params({"factor": 2.0}), (True, True)),
        "both": (kernel(of_value, "float64").with_params({"factor": 2.0}), (True, False)),
        "per event": (kernel(of_event, "float64", per="event"), (True,)),
        "expression": (expression.kernels(sample_events())["x"], (False, False)),
    }
    text = assembled(*kernels[kind], ARCHITECTURES[gpu], monkeypatch, tmp_path)
    assert "sm_{}{}".format(*ARCHITECTURES[gpu]) in text


def test_multiplications_and_additions_are_rounded_one_by_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = kernel(of_value, "float64").with_params({"factor": 2.0})
    text = assembled(made, (False, False), (8, 0), monkeypatch, tmp_path)
    assert "mul.f64" in text.replace("mul.rn.f64", "mul.f64")
    assert "fma" not in text


def test_what_no_gpu_can_compute_is_refused_by_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = kernel(lambda pt: {"a": pt}["a"], "float64")  # a dictionary
    with pytest.raises(Exception, match=r"(?i)dict|typing|unsupported|build_map"):
        assembled(made, (False,), (8, 0), monkeypatch, tmp_path)


# Here: no GPU, or one that cannot be used.


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{Jit.__module__}.find_cuda", lambda: NoDevice("it was sold"))


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_stage_runs_on_the_cpu_with_one_warning() -> None:
    call = a_call()
    result = run_modified([(Jit(), call)], DOUBLE.run, sample_events())
    np.testing.assert_array_equal(result.events["twice"], 2 * sample_events()["MET_pt"])
    assert list(call.warnings.messages) == [
        "modifier 'cuda.jit': no GPU is used, its stages compute on the CPU: it was sold"
    ]
    assert call.measured.values == {"ran": "the CPU: it was sold"}


@pytest.mark.usefixtures("no_gpu")
def test_a_gpu_can_be_demanded() -> None:
    with pytest.raises(ModifierFailure) as failure:
        run_modified([(Jit(on_unavailable="error"), a_call())], DOUBLE.run, sample_events())
    assert isinstance(failure.value.problem, CenoteError)
    assert failure.value.problem.problems[0].kind.name == "no-device"


def test_a_machine_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SIMULATOR, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    cuda_kernels.find_cuda.cache_clear()
    assert isinstance(find_cuda(), NoDevice)
    cuda_kernels.find_cuda.cache_clear()


def test_an_operation_without_kernels_runs_as_usual() -> None:
    @operation("custom.plain", reads=["MET_pt"], adds=["x"])
    def plain(events: Any) -> dict[str, Any]:
        return {"x": events["MET_pt"]}

    call, stage = a_call(), plain.cenote_factory()  # type: ignore[attr-defined]
    call.operation = stage
    run_modified([(Jit(), call)], stage.run, sample_events())
    assert list(call.warnings.messages) == [
        "modifier 'cuda.jit': stage 'Stage' runs as without it: its operation has no kernels to compile"
    ]


# Declaring kernels


def declare(**more: Any) -> Any:
    def scaled(events: Any, *, factor: float = 1.0) -> dict[str, Any]:
        return {"x": factor * events["pt"]}

    return operation("custom.own", reads=["pt"], adds=["x"], **more)(scaled)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"kernels": {"y": kernel(lambda pt: pt, "f8")}}, "adds x, its kernels compute y"),
        ({"kernels": {"x": kernel(lambda ppt: ppt, "f8")}}, "takes 'ppt', which is neither in reads= nor a param"),
        ({"kernels": {"x": kernel(lambda pt: pt, "f8")}, "filter": True}, "kernels compute columns"),
    ],
)
def test_kernels_go_with_what_is_declared(more: dict[str, Any], words: str) -> None:
    with pytest.raises(CenoteError, match=words):
        declare(**more)
    declare(kernels={"x": kernel(lambda pt, factor: pt * factor, "f8")})


def test_kernels_name_their_parameters_and_types() -> None:
    with pytest.raises(ValueError, match="names its parameters"):
        kernel(lambda *columns: columns[0], "f8")
    with pytest.raises(TypeError, match="float65"):
        kernel(lambda pt: pt, "float65")
    with pytest.raises(ValueError, match="per 'list'"):
        kernel(lambda pt: pt, "f8", per="list")  # type: ignore[arg-type]


@pytest.mark.gpu
def test_kernels_give_what_their_operations_give_on_a_gpu() -> None:
    found = find_cuda()
    if not isinstance(found, Cuda) or found.simulated:
        pytest.skip(found.reason if isinstance(found, NoDevice) else "Numba simulates here")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", HERE / "cuda_simulator_checks.py"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]


# A whole run

FLOW = """
data: {datasets: [{name: d, files: d.root}]}
analysis:
  stages:
    - {id: Columns, op: define, params: {p: "sqrt(px**2 + py**2)", hard: "p > 1"}, execution: {modifiers: MODIFIERS}}
    - id: Momentum
      op: hep.hist
      params: {axes: [{name: p, source: p, bins: {nbins: 10, low: 0, high: 5}}]}
"""


def run_flow(folder: Path, modifiers: str, **variables: str) -> tuple[dict[str, Any], Any]:
    (folder / "flow.yaml").write_text(FLOW.replace("MODIFIERS", modifiers))
    out = folder / f"out-{len(list(folder.iterdir()))}"
    command = [sys.executable, "-m", "cenote", "run", "flow.yaml", "--out", out]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((out / "summary.json").read_text())
    (product,) = (one for one in summary["products"] if one["name"] == "Momentum")
    (histogram,) = (file for file in product["files"] if file.endswith(".json"))
    return summary, json.loads((out / histogram).read_text())


def test_a_run_says_what_was_simulated_and_gives_the_same_numbers(tmp_path: Path) -> None:
    import uproot

    random = np.random.default_rng(3)
    with uproot.recreate(tmp_path / "d.root") as file:
        file["Events"] = {name: random.normal(size=500).astype(np.float32) for name in ("px", "py")}
    _, expected = run_flow(tmp_path, "[]")
    there, simulated = run_flow(tmp_path, "[cuda.jit]", **{SIMULATOR: "1"})
    here, usual = run_flow(tmp_path, "[gpu.preload, cuda.jit]", CUDA_VISIBLE_DEVICES="")
    assert simulated == expected == usual
    assert "modifier 'cuda.jit': kernels run in Numba's simulator, not on a GPU" in there["warnings"]
    (measured,) = there["stages"][0]["modifiers"]
    assert measured["values"]["ran"] == {"Numba's simulator": 1}
    assert [one["name"] for one in here["stages"][0]["modifiers"]] == ["gpu.preload", "cuda.jit"]
    assert sum("no GPU is used" in warning for warning in here["warnings"]) == 2
