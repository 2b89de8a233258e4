"""Read a workflow: one call from a file to a checked Workflow, or to everything that is wrong with it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cenote.common import storage
from cenote.common.errors import CYCLE, UNKNOWN_POOL, Problem, unique
from cenote.common.values import dataclass
from cenote.language.checks.document import check_document
from cenote.language.checks.findings import Findings
from cenote.language.layers.compose import Layered, read_layers
from cenote.language.layers.site import explained
from cenote.language.workflow import Workflow


@dataclass(frozen=True)
class Checked:
    """What reading gave: a workflow, or what is wrong with it.

    A workflow comes together with problems where only names of pools are wrong: the rest can still be looked at.
    """

    workflow: Workflow | None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    rest: Workflow | None = None
    """Where something is wrong: what could be read nevertheless, to look for further problems in its stages."""


def read_workflow(
    file: Path,
    *,
    content: bytes | None = None,
    profiles: Sequence[str] = (),
    sets: Sequence[str] = (),
    backend: str | None = None,
    strategy: str | None = None,
) -> Checked:
    """Read, merge and check a workflow. Never raises for what a user wrote: every problem is in the answer.

    `content` is the workflow itself, where it is not in the file, whose name and folder still count. The other keyword
    arguments are the command line: `--profile`, `--set key=value`, `--backend`, `--strategy`.
    """
    storage.demand_text(file)
    with _collector_paused():
        layered = read_layers(file, content=content, profiles=profiles, sets=sets, backend=backend, strategy=strategy)
        return _checked(layered, file, content)


def _checked(layered: Layered, file: Path, content: bytes | None) -> Checked:
    if layered.root is None:
        return Checked(None, tuple(unique(layered.problems)))
    findings = Findings(problems=list(layered.problems))
    workflow = replace(check_document(layered.root, file, findings), content=content)
    problems = tuple(explained(findings.problems, layered.site, layered.root))
    whole = all(problem.kind is UNKNOWN_POOL for problem in problems)
    ordered = all(problem.kind is not CYCLE for problem in problems)
    return Checked(
        workflow if whole else None,
        problems,
        tuple(dict.fromkeys(findings.warnings)),
        rest=workflow if ordered and not whole else None,
    )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A large file makes a million small values and no garbage; looking for some doubles the time."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()
