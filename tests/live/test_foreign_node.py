"""The foreign node of live tests is a node of its own, whatever this machine is like."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .foreign_node import foreign_node


def test_a_foreign_node_finds_its_own_programs_whatever_the_path_of_this_machine_is(tmp_path: Path) -> None:
    node = foreign_node(tmp_path)
    only_here = tmp_path / "programs of this machine"
    only_here.mkdir()
    script = node.script(tmp_path / "on_node", [])
    found = subprocess.run(
        [script, "sh", "-c", "ls / && echo $PATH"],
        env={"PATH": str(only_here)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "var" in found.stdout.split()
    assert str(only_here) not in found.stdout
