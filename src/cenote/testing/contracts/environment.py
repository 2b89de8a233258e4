"""Check environments: they complete a launch without losing anything of it, and say what they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from cenote.common.errors import Problem
from cenote.common.shell import run_command
from cenote.execution.environments.interface import Environment
from cenote.execution.launch import Launch
from cenote.execution.packing.archive import unheard
from cenote.testing.contracts.plugin import PluginContract
from cenote.testing.launches import a_launch

_MOST_SECONDS = 120.0


class EnvironmentContract(PluginContract):
    """`plugin` is the environment."""

    plugin: ClassVar[type[Environment]]
    starts_here: ClassVar[bool] = True
    """Whether tests can start its Python on this machine."""

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        """The keys beside `type`."""
        found = example["execution"]["environment"]
        return {key: value for key, value in found.items() if key != "type"} if isinstance(found, dict) else {}

    def test_it_completes_a_launch_and_keeps_what_was_there(self, made: Environment, tmp_path: Path) -> None:
        before = a_launch("python3", "-c", "pass", folder=tmp_path, variables={"GREETING": "hello"})
        after = made.complete(before)
        assert after.interpreter
        assert_kept(before, after)
        assert (after.module, after.arguments) == (before.module, before.arguments)

    def test_its_python_finds_cenote(self, made: Environment, tmp_path: Path) -> None:
        if not self.starts_here:
            return
        made.prepare(unheard)
        launch = made.complete(a_launch("python3", "-c", "import cenote.execution.worker", folder=tmp_path))
        command, variables = launch.here("worker-1")
        assignments = [f"{name}={value}" for name, value in variables.items()]
        done = run_command(["env", *assignments, *command], seconds=_MOST_SECONDS, folder=tmp_path)
        assert done.returncode == 0, done.stderr

    def test_it_is_described_for_provenance(self, made: Environment) -> None:
        assert json.loads(json.dumps(made.describe())) == made.describe()
        assert "type" not in made.describe()

    def test_what_is_wrong_is_a_list_of_problems(self, made: Environment) -> None:
        assert all(isinstance(problem, Problem) for problem in made.check())


def assert_kept(before: Launch, after: Launch) -> None:
    """Nothing of a launch may be lost or replaced when it is completed."""
    assert (after.run, after.pool, after.resources) == (before.run, before.pool, before.resources)
    assert before.variables.items() <= after.variables.items()
    assert set(before.files) <= set(after.files)
    assert set(before.setup) <= set(after.setup)
