"""Test that a workflow is checked without code that it does not name: no Dask, no matplotlib, no other plugins."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind, built_in
from cenote.testing.muons import write_muons

FLOW = """
data: {datasets: [{name: d, files: [a.root]}]}
sources: {events: {kind: root_tree}}
analysis:
  stages:
    - {id: Hard, op: hep.select, params: {selection: ["MET_pt > 20"]}}
    - {id: H, op: hep.hist, params: {axes: [MET_pt]}, render: {op: hep.render.hist1d}}
"""
ON_SLURM = """
execution:
  backend: dask
  strategy: slurm
  config: {patience: 90s}
  pools: {default: {workers: 2, config: {partition: short, walltime: 1h}}}
"""
NEVER = {"distributed", "dask", "matplotlib", "mplhep", "scipy"}


def imported_by(folder: Path, code: str) -> set[str]:
    """The modules that a fresh interpreter has after this."""
    script = f"import json, sys\n{code}\nprint(json.dumps(list(sys.modules)))\n"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=120, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("execution", "strategies", "backends"),
    [("", set(), set()), (ON_SLURM, {"slurm"}, {"dask"})],
    ids=["built-in defaults", "dask on slurm"],
)
def test_a_check_imports_the_plugins_that_a_file_names_and_no_others(
    execution: str, strategies: set[str], backends: set[str], tmp_path: Path
) -> None:
    write_muons(tmp_path / "a.root", events=20)
    (tmp_path / "flow.yaml").write_text(FLOW + execution)
    code = "from cenote.cli.main import exit_code_of\nassert exit_code_of(['check', 'flow.yaml']) == 0"
    found = imported_by(tmp_path, code)
    assert found & NEVER == set()
    for kind, named in ((PluginKind.STRATEGY, strategies), (PluginKind.BACKEND, backends)):
        there = {name for name in registry.built_in_names(kind) if built_in(kind)[name] in found}
        assert there <= {"local", *named}
    assert "cenote.analysis.sources.parquet" not in found
    assert "cenote.analysis.operations.hep.di_object_mass" not in found


def test_loading_renderers_does_not_import_matplotlib(tmp_path: Path) -> None:
    names = registry.built_in_names(PluginKind.RENDERER)
    assert {"hep.render.hist1d", "hep.render.data_mc", "hep.render.heatmap2d", "hep.render.cutflow_csv"} <= set(names)
    code = (
        "from cenote.language.plugins.kinds import PluginKind\n"
        "from cenote.language.plugins.registry import load\n"
        "needed = {'hep.render.project': {'project': {'axis': 'x'}}}\n"
        f"for name in {names!r}: load(PluginKind.RENDERER, name).model_validate(needed.get(name, {{}}))"
    )
    assert "matplotlib" not in imported_by(tmp_path, code)


def test_pytest_is_imported_by_the_contracts_alone(tmp_path: Path) -> None:
    code = "import cenote.testing.scripted_shell, cenote.testing.muons, cenote.testing.sample_events"
    assert "pytest" not in imported_by(tmp_path, code)
