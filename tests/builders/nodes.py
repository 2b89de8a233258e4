"""Play a node of a cluster that gets packed environments: a shell, and a folder of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cenote.execution.environments.support.packed import unpacked_on_node
from cenote.execution.launch import Launch
from cenote.execution.packing.archive import Archive
from cenote.execution.start_failures import StartFailure
from cenote.testing.launches import a_launch


@dataclass
class Node:
    """A node of a cluster: a shell, and a folder for environments."""

    folder: Path
    shell: tuple[str, ...] = ("sh",)
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the job finds on the node, beside all that this process has."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """The environment's own variables."""

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    @property
    def environments(self) -> Path:
        return self.scratch / f"cenote-env-{os.geteuid()}"

    def place(self, archive: Archive) -> Path:
        return self.environments / archive.digest[:16]

    def launch(self, *archives: Archive, scratch: str | None = None) -> Launch:
        launch = replace(a_launch("x", folder=self.folder), interpreter=(), arguments=())
        place = str(self.scratch) if scratch is None else scratch or None
        return unpacked_on_node(launch, archives, scratch=place, variables=self.asked)

    def start(self, *archives: Archive, then: str = "", scratch: str | None = None) -> subprocess.Popen[str]:
        """The worker is what the environment's Python does, or another command; without a `scratch` ("") the node has
        to find one."""
        ready = self.launch(*archives, scratch=scratch)
        ready = ready.filled(ready.blanks(("worker-1",)))
        last = f"exec sh -c {shlex.quote(then)}" if then else ready.exec_line()
        setup = [f"eval {shlex.quote(line)}" for line in ready.set_up_lines()]  # as HTCondor's jobs have it
        script = "\n".join([*ready.export_lines(), *setup, last])
        environment = {**os.environ, **self.variables}
        return subprocess.Popen(
            [*self.shell, "-c", script, "worker-1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self.folder,
            process_group=0,
        )

    def run(self, *archives: Archive, then: str = "", scratch: str | None = None) -> tuple[int, str, str]:
        """The exit code, and what was printed and complained about."""
        with self.start(*archives, then=then, scratch=scratch) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out.strip(), err.strip()

    def fails(self, failure: StartFailure, *archives: Archive, scratch: str | None = None) -> str:
        """The one line that says why."""
        code, out, err = self.run(*archives, scratch=scratch)
        assert (StartFailure.of(code), out) == (failure, ""), (code, out, err)
        assert len(err.splitlines()) == 1, err
        assert err.startswith("cenote: ")
        return err
