"""This file holds the verbs for scripts and notebooks: load a file, check it, plan it, run it, look at a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cenote import errors, signals, storage
from cenote.errors import CenoteError, Problem
from cenote.language.availability import unavailable
from cenote.language.read import Checked, read_workflow
from cenote.language.workflow import Workflow
from cenote.machine import this_machine
from cenote.plan.build import analyse, build_plan, stage_problems
from cenote.plan.history import MemoryHistory, memory_key
from cenote.plan.learned import with_history
from cenote.plan.look import Progress
from cenote.plan.plan import Plan
from cenote.plan.probed import ProbeHistory, with_probes
from cenote.report import write_report
from cenote.report.notebook_view import run_as_html
from cenote.runtime import probe as probing
from cenote.runtime.cancel import PATIENCE, cancel_run
from cenote.runtime.execute import Listener, RunOptions, add_failure, execute
from cenote.runtime.journal import NAME as JOURNAL
from cenote.runtime.publish import product_kind
from cenote.runtime.read_summary import read_summary
from cenote.runtime.run_folder import RunFolder

_EXIT_CODES = {"succeeded": 0, "partial": 1, "failed": 20, "cancelled": 130}


@dataclass(frozen=True, repr=False)
class CheckResult:
    """What is wrong with a workflow, and what is only odd."""

    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        told = [*(f"warning: {warning}" for warning in self.warnings), *map(str, self.problems)]
        return "\n".join(told if self.problems else [*told, "no problems"])

    __repr__ = __str__


class Analysis:
    """A workflow file, with what the command line or the caller adds to it."""

    def __init__(self, file: Path, checked: Callable[[], Checked]) -> None:
        self.file = file
        self._read = checked

    def __repr__(self) -> str:
        return f"Analysis({str(self.file)!r})"

    @cached_property
    def _checked(self) -> Checked:
        with _looking():
            return self._read()

    @property
    def workflow(self) -> Workflow:
        """What the file says. Raises when something is wrong with it."""
        checked = self._checked
        if checked.problems or checked.workflow is None:
            raise CenoteError(checked.problems)
        return checked.workflow

    def check(self, *, read_files: bool = True) -> CheckResult:
        """Everything that is wrong, at once; looks into the first file of each dataset unless told not to."""
        with _looking():
            return self._all_problems(read_files=read_files)

    def _all_problems(self, *, read_files: bool) -> CheckResult:
        checked = self._checked
        problems, warnings = list(checked.problems), list(checked.warnings)
        if checked.workflow is not None:
            workflow = checked.workflow if read_files else replace(checked.workflow, datasets=())
            analysed = analyse(workflow, this_machine(), every_file=False)
            told = {problem.place for problem in checked.problems}
            found = [*analysed.problems, *(file.problem for file in analysed.inputs.bad)]
            problems += [problem for problem in found if problem.place is None or problem.place not in told]
            later, left_out = unavailable(checked.workflow)
            warnings += [*analysed.warnings, *(str(problem) for problem in later), *left_out]
        elif checked.rest is not None and read_files:
            told = {problem.place for problem in checked.problems}
            problems += [problem for problem in stage_problems(checked.rest) if problem.place not in told]
        return CheckResult(tuple(errors.unique(problems)), tuple(dict.fromkeys(warnings)))

    def plan(self, *, strict: bool = False, keep_going: bool = False, progress: Progress | None = None) -> Plan:
        """What will be done, where and why. Raises with every reason why it cannot be."""
        if self._checked.problems:
            raise CenoteError(self.check().problems)
        with _looking():
            plan = build_plan(self.workflow, this_machine(), strict=strict, keep_going=keep_going, progress=progress)
        history = MemoryHistory().of(memory_key(segment) for segment in plan.segments)
        plan = with_probes(with_history(plan, history), ProbeHistory())
        return _warning_first(plan, *self._checked.warnings)

    def probe(
        self,
        out: str | Path | None = None,
        *,
        wait: float = probing.PATIENCE,
        listen: probing.Listener | None = None,
        progress: Progress | None = None,
    ) -> probing.ProbeResult:
        """Start one short job for each pool, as a worker would be started, and judge what it finds on its node."""
        return probing.probe(self.plan(progress=progress), self._folder(out), wait=wait, listen=listen)

    def run(
        self,
        out: str | Path | None = None,
        *,
        resume: bool = False,
        replace: bool = False,
        keep_going: bool = False,
        workers: int | None = None,
        strict: bool = False,
        listen: Listener | None = None,
        progress: Progress | None = None,
        command: Sequence[str] | None = None,
    ) -> Run:
        """Run it and come back when it is over; `listen` is shown the state of the run a few times a second."""
        if workers is not None and workers < 1:
            raise errors.error(errors.USAGE, f"workers={workers}: at least one process is needed")
        if workers is not None and self.workflow.execution.backend != "local":
            raise _pools_count_workers(self.workflow, workers)
        folder = self._folder(out)
        RunFolder(folder).refuse(resume=resume, replace=replace)
        plan = self.plan(strict=strict, keep_going=keep_going, progress=progress)
        if resume and not RunFolder(folder).holds_run:
            plan = _warning_first(plan, f"{folder} holds no run yet: there is nothing to resume, so everything runs")
        options = RunOptions(
            resume=resume,
            replace=replace,
            keep_going=keep_going,
            workers=workers,
            cpus=this_machine().cpus,
            command=command,
        )
        with signals.noted(), _staying_here():
            _execute_and_report(plan, folder, options, listen)
        return open_run(folder)

    def _folder(self, out: str | Path | None) -> Path:
        return Path(out) if out is not None else Path("out") / self.file.stem


@contextmanager
def _looking() -> Iterator[None]:
    """Looks at files and at somebody's code, and may be left at any point."""
    with signals.raised(), storage.explained():
        yield


def _execute_and_report(plan: Plan, folder: Path, options: RunOptions, listen: Listener | None) -> None:
    done = execute(plan, folder, options, listen)
    try:
        write_report(done.path)
    except (CenoteError, OSError) as problem:
        add_failure(done, problem)
        raise


@contextmanager
def _staying_here() -> Iterator[None]:
    """Somebody's code may change the working directory: afterwards it is what it was."""
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield
    finally:
        os.fchdir(here)
        os.close(here)


def _pools_count_workers(workflow: Workflow, workers: int) -> CenoteError:
    execution = workflow.execution
    pools = [pool.name for pool in execution.pools] or ["default"]
    return errors.error(
        errors.USAGE,
        f"--workers counts the processes of the backend 'local'; with '{execution.backend}' every pool has its own "
        "number of workers",
        details=[f"pools: {', '.join(pools)}"],
        hint=f"say how many with --set execution.pools.{pools[0]}.workers={workers}",
    )


def _warning_first(plan: Plan, *warnings: str) -> Plan:
    return replace(plan, warnings=tuple(dict.fromkeys([*warnings, *plan.warnings])))


class Run:
    """A run that has ended, or goes on: what it left so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.status})"

    def _repr_html_(self) -> str:
        return run_as_html(self.folder, self.summary)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`; empty while the run goes on."""
        with storage.explained():
            return read_summary(RunFolder(self.folder))

    @property
    def status(self) -> str:
        """`succeeded`, `partial`, `failed`, `cancelled`, or `running`."""
        return str(self.summary.get("status", "running"))

    @property
    def exit_code(self) -> int:
        """What the command line ends with."""
        code = _EXIT_CODES.get(self.status, 20)
        kinds = {kind.name: kind.exit_code for kind in errors.KINDS}
        if self.status == "failed":
            codes = [kinds[f["kind"]] for f in self.failures if f.get("kind") in kinds]
            return min(codes, default=code)
        return code

    @property
    def products(self) -> tuple[str, ...]:
        """The names that `product` takes."""
        return tuple(product["name"] for product in self.summary.get("products", ()))

    @property
    def plots(self) -> tuple[Path, ...]:
        """The pictures that were drawn."""
        found = [plot for product in self.summary.get("products", ()) for plot in product["plots"]]
        return tuple(self.folder / plot for plot in found)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """What failed, with stage, file, entries and message."""
        return list(self.summary.get("failures", ()))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the run wants known."""
        return tuple(self.summary.get("warnings", ()))

    def product(self, name: str) -> Any:
        """The product of a stage: a `hist.Hist`, a cutflow table, a list of files, or what an operation made."""
        for product in self.summary.get("products", ()):
            if product["name"] == name:
                file_name = name.replace(":", ".").replace("/", "_")
                return product_kind(product["kind"]).load(RunFolder(self.folder).products, file_name)
        raise KeyError(f"no product '{name}' here; there are: {', '.join(self.products) or 'none'}")


def load(
    file: str | Path,
    *,
    profiles: Sequence[str] = (),
    sets: Sequence[str] = (),
    backend: str | None = None,
    strategy: str | None = None,
) -> Analysis:
    """A workflow file, ready to be checked, planned and run. What is wrong inside it is told by those."""
    path = Path(file)
    return Analysis(path, lambda: read_workflow(path, profiles=profiles, sets=sets, backend=backend, strategy=strategy))


def open_run(folder: str | Path) -> Run:
    """A run by its folder."""
    path = Path(folder)
    if not (path / JOURNAL).is_file():
        raise errors.error(errors.NO_RUN, f"{path} holds no run: there is no {JOURNAL}")
    return Run(path)


def cancel(folder: str | Path, *, wait: float = PATIENCE) -> Run:
    """End a run that another process drives, and come back when it has ended; what is finished stays.

    Raises when nothing drives it, or when it has not ended after `wait` seconds.
    """
    cancel_run(Path(folder), patience=wait)
    return open_run(folder)
