"""Hold the verbs for scripts and notebooks: load a file, check it, plan it, run it, look at a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cenote.common import errors, signals, storage
from cenote.common.errors import CenoteError, Problem
from cenote.common.machine import this_machine
from cenote.common.values import dataclass
from cenote.engine.messages import WhyRow
from cenote.execution.packing.archive import Progress, unheard
from cenote.execution.runs.changed.ingredients import ingredients_of, read_ingredients
from cenote.execution.runs.configured import PoolEnvironments
from cenote.execution.runs.credentials import RunCredentials
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.follow import read_summary
from cenote.execution.runs.journal import JournalReader
from cenote.execution.runtime.bad_files import execute_without_bad_files
from cenote.execution.runtime.demand import SparedStage, everything, running_stages, spared_stages, why
from cenote.execution.runtime.execute import RunOptions, add_failure
from cenote.execution.runtime.loop import Hearer, RunListener, RunProgress
from cenote.execution.runtime.results import demand_in
from cenote.language.plugins.registry import runs_here
from cenote.language.read import Checked, read_workflow
from cenote.language.workflow import Report, Workflow
from cenote.planning.build import PlanRequest, analyse, build_plan, stage_problems
from cenote.planning.forecast.task_history import Seen, TaskHistory, task_key
from cenote.planning.forecast.time import with_history
from cenote.planning.inputs.data_report import DataReport, report_on
from cenote.planning.inputs.look import Look, Unreadable, look_at_inputs
from cenote.planning.inputs.metadata import InputsProgress
from cenote.planning.plan import Plan
from cenote.planning.probes.cache import ProbeHistory, with_probes
from cenote.planning.stages.selection import refuse_unknown
from cenote.planning.stages.variation_cost import cost_of_variations
from cenote.report.run import Run as Run

if TYPE_CHECKING:  # planning does without what it brings
    from cenote.execution.probe.run import ProbeResult, ProbeWatcher
    from cenote.report.notebook import NotebookProgress

StageNames = str | Sequence[str]
"""One stage or several, by id."""


@dataclass(frozen=True, repr=False)
class CheckResult:
    """What is wrong with a workflow, and what is only odd."""

    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What variations cost, where there are some."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        lines = [*(f"warning: {warning}" for warning in self.warnings), *map(str, self.problems)]
        return "\n".join(lines if self.problems else [*lines, *self.notes, "no problems"])

    __repr__ = __str__


@dataclass(frozen=True)
class Preview:
    """What a run would do."""

    plan: Plan
    folder: Path
    reused: frozenset[int]
    """Tasks of the plan whose results are there already."""
    why: tuple[WhyRow, ...] = ()
    """Why the others run, stage by stage; empty where there is no earlier run to compare with."""
    spared: tuple[SparedStage, ...] = ()
    """Stages that some of them need not run, since what they do to events was kept."""
    running: Mapping[str, int] = field(default_factory=dict)
    """Stage → how many tasks run it. A task that runs leaves out those of its stages that nothing new is made of."""

    def stages(self) -> dict[str, tuple[int, int]]:
        """Stage → how many tasks it has, and how many of them need not run it."""
        return {one.stage: (one.tasks, one.tasks - self.running.get(one.stage, 0)) for one in self.plan.stages}


class Analysis:
    """A workflow file, with what the command line or the caller adds to it."""

    def __init__(self, file: Path, checked: Callable[[], Checked]) -> None:
        self.file = file
        self._read = checked

    def __repr__(self) -> str:
        return f"Analysis({str(self.file)!r})"

    def _repr_html_(self) -> str:
        checked = self._checked
        from cenote.report.notebook import analysis_as_html  # notebooks alone show it

        return analysis_as_html(self.file, checked.workflow or checked.rest, checked.problems)

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

    @property
    def layers(self) -> tuple[tuple[str, str], ...]:
        """What was read: (layer, file) of everything that says something in the end, the workflow's own file first."""
        found = self._checked.workflow or self._checked.rest
        origins = found.origins.values() if found is not None else ()
        read = dict.fromkeys((origin.layer, origin.place.file) for origin in origins if origin.place is not None)
        return tuple(sorted(read, key=lambda one: one[1] != str(self.file)))

    def check(self, *, read_files: bool = True) -> CheckResult:
        """Everything that is wrong, at once; looks into the first file of each dataset unless asked not to."""
        with _looking():
            return self._all_problems(read_files=read_files)

    def check_data(self, *, progress: InputsProgress | None = None) -> DataReport:
        """Open every file of every dataset, whatever the stages are. Raises what is wrong with the workflow."""
        with _looking(), RunCredentials(self.workflow).used_here():
            return report_on(self.workflow, look_at_inputs(self.workflow, Look.EVERY, progress=progress))

    def _all_problems(self, *, read_files: bool) -> CheckResult:
        checked = self._checked
        problems, warnings, notes = list(checked.problems), list(checked.warnings), list[str]()
        known = {problem.place for problem in checked.problems}
        look = Look.FIRST if read_files else Look.NONE
        if checked.workflow is not None:
            with RunCredentials(checked.workflow).used_here():
                analysed = analyse(checked.workflow, this_machine(), look)
            found = [*analysed.problems, *analysed.inputs.unreadable()]
            if read_files and not analysed.placement.problems:
                pools = [pool.name for pool in analysed.placement.pools]
                found += PoolEnvironments(checked.workflow, pools).environment_problems()
            problems += [problem for problem in found if problem.place is None or problem.place not in known]
            warnings += analysed.warnings
            notes += cost_of_variations(analysed.workflow)
        elif checked.rest is not None:
            with _as_far_as_known(checked.rest) as are_known:
                found = stage_problems(checked.rest, look if are_known else Look.NONE)
            problems += [problem for problem in found if problem.place not in known]
        return CheckResult(tuple(errors.unique(problems)), tuple(dict.fromkeys(warnings)), tuple(notes))

    def plan(
        self,
        *,
        until: StageNames = (),
        only: StageNames = (),
        strict: bool = False,
        keep_going: bool = False,
        progress: InputsProgress | None = None,
    ) -> Plan:
        """What will be done, where and why. Raises with every reason why it cannot be.

        `until` and `only` name stages: the plan ends with them, or is for their results alone.
        """
        asked = PlanRequest(_names(until), _names(only), strict=strict, keep_going=keep_going, progress=progress)
        return self._plan(asked)

    def _plan(self, asked: PlanRequest) -> Plan:
        if self._checked.problems:
            raise CenoteError(self.check().problems)
        credentials = RunCredentials(self.workflow)
        with _looking(), credentials.used_here():
            unusable = [_as_warning(problem) for problem in credentials.problems(time.time())]
            plan = build_plan(self.workflow, this_machine(), asked)
        history = TaskHistory().of(task_key(segment) for segment in plan.segments)
        plan = with_probes(with_history(plan, history), ProbeHistory())
        ending = _ending(plan, history, credentials) if credentials.all else ()
        return _warning_first(plan, *self._checked.warnings, *unusable, *ending)

    def probe(
        self,
        out: str | Path | None = None,
        *,
        wait: float | None = None,
        listen: ProbeWatcher | None = None,
        progress: InputsProgress | None = None,
        packing: Progress = unheard,
    ) -> ProbeResult:
        """Start one short job for each pool, as a worker would be started, and judge what it finds on its node.

        A job that has not answered after `wait` seconds is given up; None for the usual patience.
        """
        from cenote.execution.probe.run import probe  # with cryptography, which planning does without

        self._need_credentials()
        plan = self.plan(progress=progress)
        return probe(plan, self._folder(out), wait=wait, listen=listen, packing=packing)

    def run(
        self,
        out: str | Path | None = None,
        *,
        until: StageNames = (),
        only: StageNames = (),
        force: StageNames = (),
        fresh: bool = False,
        resume: bool = False,
        replace: bool = False,
        keep_going: bool = False,
        workers: int | None = None,
        strict: bool = False,
        report: bool = True,
        listen: RunListener | None = None,
        hear: Hearer | None = None,
        progress: InputsProgress | None = None,
        packing: Progress | None = None,
        command: Sequence[str] | None = None,
    ) -> Run:
        """Run it and come back when it is over.

        What an earlier run in the folder has done and nothing has changed is not done again (`resume` says so too);
        `force` names stages that are, with all that follow them, and `fresh` forgets the earlier run (`replace` is its
        older name). `until` and `only` name stages: the run ends with them, or is for their results alone. Without
        `report` there is no page about it; `cenote report` makes one at any time.
        `listen` is shown the state of the run a few times a second, `hear` gets the plan and every single event;
        `progress` hears how far the planning is, `packing` how far an environment. In a notebook a run without `listen`
        shows a bar by itself.
        """
        if resume and (fresh or replace):
            raise errors.error(errors.USAGE, "a run cannot be both resumed and discarded: choose one")
        self._refuse_workers(workers)
        if listen is None and (watcher := _notebook_progress(self.file.name)) is not None:
            listen, progress, packing = watcher, progress or watcher.planning, packing or watcher.packing
        folder = self._folder(out)
        RunFolder(folder).refuse()
        self._need_credentials()
        shown = RunProgress(
            planning=progress or unheard, packing=packing or unheard, view=listen or unheard, event=hear or unheard
        )
        asked = PlanRequest(_names(until), _names(only), strict=strict, keep_going=keep_going, progress=shown.planning)
        plan = self._plan(asked)
        refuse_unknown(_names(force), plan.workflow)
        if resume and not RunFolder(folder).holds_run:
            plan = _warning_first(plan, f"{folder} holds no run yet: nothing to resume, every task runs")
        options = RunOptions(
            fresh=fresh or replace,
            force=frozenset(_names(force)),
            keep_going=keep_going,
            workers=workers,
            cpus=this_machine().cpus,
            command=command,
        )

        def again(unreadable: Unreadable) -> Plan:
            return self._plan(asked.without(unreadable))

        with signals.noted(), storage.staying_here():
            done = execute_without_bad_files(plan, folder, options, again, shown)
            _report(done, plan.workflow.reports, page=report)
        return open_run(folder)

    def preview(
        self,
        out: str | Path | None = None,
        *,
        until: StageNames = (),
        only: StageNames = (),
        force: StageNames = (),
        fresh: bool = False,
        keep_going: bool = False,
        workers: int | None = None,
        strict: bool = False,
        progress: InputsProgress | None = None,
    ) -> Preview:
        """What `run` with the same words would do; nothing is run and nothing is written. Raises where it would."""
        self._refuse_workers(workers)
        folder = RunFolder(self._folder(out))
        folder.refuse()
        plan = self.plan(until=until, only=only, strict=strict, keep_going=keep_going, progress=progress)
        refuse_unknown(_names(force), plan.workflow)
        demand = everything(plan) if fresh else demand_in(plan, folder, _names(force))
        reused = frozenset(task for task in range(len(plan.tasks)) if not demand.runs(task))
        before = None if fresh else read_ingredients(folder)
        running = running_stages(plan, demand)
        rows = why(plan, running, before, ingredients_of(plan), _names(force))
        earlier = None if fresh else read_summary(folder)
        return Preview(plan, folder.path, reused, rows, spared_stages(plan, demand, earlier), running.tasks)

    def _refuse_workers(self, workers: int | None) -> None:
        if workers is not None and workers < 1:
            raise errors.error(errors.USAGE, f"workers={workers}: at least one process is needed")
        if workers is not None and not runs_here(self.workflow.execution.backend):
            raise _pools_count_workers(self.workflow, workers)

    def _need_credentials(self) -> None:
        """Raise what is wrong with them, before data that needs them is read; what can be renewed is."""
        if not self._checked.problems:
            with _looking():
                RunCredentials(self.workflow).make_usable(time.time)

    def _folder(self, out: str | Path | None) -> Path:
        return Path(out) if out is not None else Path("out") / self.file.stem


@contextmanager
def _as_far_as_known(workflow: Workflow) -> Iterator[bool]:
    """Use the credentials of a workflow that has faults; whether they are known: without them data may be closed."""
    lost = not workflow.execution.credentials and workflow.origin("execution", "credentials") is not None
    with ExitStack() as at_last:
        try:
            at_last.enter_context(RunCredentials(workflow).used_here())
        except CenoteError:  # their settings are among the faults
            lost = True
        yield not lost


@contextmanager
def _looking() -> Iterator[None]:
    """Looks at files and at somebody's code, and may be left at any point."""
    with signals.raised(), storage.explained():
        yield


def _notebook_progress(title: str) -> NotebookProgress | None:
    """A bar for those who run this in a notebook."""
    if "IPython" not in sys.modules:
        return None
    from cenote.report.notebook import notebook_progress

    return notebook_progress(title)


def _report(done: RunFolder, reports: Sequence[Report], *, page: bool) -> None:
    """Write what the workflow asks for, and the page about the run; both bring the template engine along.

    A template that fails is told on the page.
    """
    failed: CenoteError | OSError | None = None
    if reports:
        from cenote.report.own_reports import write_reports

        failed = _noted(done, lambda: write_reports(done, reports))
    if page:
        from cenote.report.page import write_report

        failed = _noted(done, lambda: write_report(done.path)) or failed
    else:
        done.report.unlink(missing_ok=True)  # that of an earlier run
    if failed is not None:
        raise failed


def _noted(done: RunFolder, write: Callable[[], object]) -> CenoteError | OSError | None:
    """What went wrong, which is a failure of the run then."""
    try:
        write()
    except (CenoteError, OSError) as problem:
        add_failure(done, problem)
        return problem
    return None


def _pools_count_workers(workflow: Workflow, workers: int) -> CenoteError:
    execution = workflow.execution
    pools = [pool.name for pool in execution.pools] or ["default"]
    return errors.error(
        errors.USAGE,
        f"`workers` counts processes of this machine; with the backend '{execution.backend}' every pool has its own "
        "number of workers",
        details=[f"pools: {', '.join(pools)}"],
        hint=f"set its size: execution.pools.{pools[0]}.workers={workers}",
    )


def _names(names: StageNames) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _as_warning(problem: Problem) -> str:
    where = f"{problem.place}: " if problem.place else ""
    return f"{where}{problem.message}; a run will be refused"


def _ending(plan: Plan, history: Mapping[str, Sequence[Seen]], credentials: RunCredentials) -> Sequence[str]:
    """What to warn of where credentials may end before the run does."""
    from cenote.execution.runs.horizon import Horizon  # of runs with credentials alone

    return Horizon.of_plan(plan, history, time.time()).warnings(credentials)


def _warning_first(plan: Plan, *warnings: str) -> Plan:
    return replace(plan, warnings=tuple(dict.fromkeys([*warnings, *plan.warnings])))


def load(
    file: str | Path,
    *,
    text: str | None = None,
    profiles: Sequence[str] = (),
    sets: Sequence[str] = (),
    backend: str | None = None,
    strategy: str | None = None,
) -> Analysis:
    """A workflow file, ready to be checked, planned and run. Those report what is wrong inside it.

    `text` is the workflow itself, where it is not in the file: the run is still named after the file, and
    relative names are taken from its folder.
    """
    path = Path(file)
    content = None if text is None else text.encode()
    return Analysis(
        path,
        lambda: read_workflow(path, content=content, profiles=profiles, sets=sets, backend=backend, strategy=strategy),
    )


def open_run(folder: str | Path) -> Run:
    """A run by its folder."""
    JournalReader(Path(folder))  # raises where there is none
    return Run(Path(folder))


def cancel(folder: str | Path, *, wait: float | None = None) -> Run:
    """End a run that another process drives, and come back when it has ended; what is finished stays.

    Raises when nothing drives it, or when it has not ended after `wait` seconds; None for the usual patience.
    """
    from cenote.execution.runs.driver.cancel import PATIENCE, cancel_run  # of those who cancel alone

    cancel_run(Path(folder), patience=PATIENCE if wait is None else wait)
    return open_run(folder)
