"""An environment that cannot work is refused in its own words, before a run writes anything."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote
from cenote.common import errors
from cenote.language.plugins.kinds import PluginKind

PLUGIN = """
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from cenote.execution.environments.interface import Environment
from cenote.common.errors import ENVIRONMENT, Problem
from cenote.execution.launch import Launch


class Packed(Environment):
    cenote_plugin: ClassVar = ("environment", "packed")
    example: ClassVar[str] = "execution: {environment: packed}"

    def complete(self, launch: Launch) -> Launch:
        return launch

    def describe(self) -> Mapping[str, Any]:
        raise FileNotFoundError("the archive")

    def check(self) -> Iterable[Problem]:
        yield Problem(ENVIRONMENT, "the archive is missing")
"""
FLOW = """
data: {datasets: [{name: d, files: [d.parquet]}]}
sources: {events: {kind: parquet}}
plugins: [packed.py]
analysis: {stages: [{id: A, op: define, params: {variables: {y: x + 1}}}]}
execution: {environment: packed}
"""


def test_nothing_is_left_of_a_run_whose_environment_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"x": [1.0, 2.0]}), "d.parquet")
    Path("packed.py").write_text(PLUGIN)
    Path("flow.yaml").write_text(FLOW)
    with pytest.raises(errors.CenoteError) as raised:
        cenote.load("flow.yaml").run(out="out")
    assert [problem.message for problem in raised.value.problems] == ["the archive is missing"]
    assert not Path("out", "plan.json").exists()


def test_a_module_of_an_environment_spells_its_name_with_an_underscore() -> None:
    assert PluginKind.ENVIRONMENT.spelled("packed_pixi") == "packed-pixi"
    assert PluginKind.SOURCE.spelled("root_tree") == "root_tree"
