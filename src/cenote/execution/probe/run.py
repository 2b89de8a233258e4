"""Probe pools: one short job each, started as a worker would be, that tells what it finds on its node."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from cenote.common import signals
from cenote.common.certificates.authority import identities_of
from cenote.common.errors import USAGE, error
from cenote.common.signals import Interruptions
from cenote.common.text import worker_name
from cenote.common.values import dataclass
from cenote.execution.launch import Launch, LaunchingRun, RunLocation, Sent, SentFile, words
from cenote.execution.packing.archive import Progress, unheard
from cenote.execution.probe.attempt import Attempt, ProbePhase
from cenote.execution.probe.listener import ReportListener
from cenote.execution.probe.question import credentials_asked, question_for_all
from cenote.execution.probe.report import NodeReport, Question, as_word
from cenote.execution.probe.verdicts import expected_of, judge
from cenote.execution.runs.configured import WorkerSetup, backend_of, strategy_of
from cenote.execution.runs.folder import RunFolder
from cenote.execution.strategies.interface import Strategy
from cenote.execution.strategies.local.strategy import LocalStrategy
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import Plan
from cenote.planning.probes.cache import ProbeHistory, probe_key
from cenote.planning.probes.result import Finding, Probed, ProbeVerdict, worst

PATIENCE = 300.0
"""Seconds that jobs may wait in the queue, unless somebody says otherwise."""
_LOOK_EVERY = 0.1
_GOODBYE = 10.0
"""Seconds that the batch system has to take cancelled jobs away before we leave."""
_HERE = "cenote.execution.worker.process.main"
"""What a worker begins with where there are no jobs."""


@dataclass(frozen=True)
class PoolProbe:
    """How the probe of one pool stands, or what it found."""

    pool: str
    strategy: str
    phase: ProbePhase
    job: str = ""
    words: str = ""
    """What the batch system says of the job."""
    waited: float | None = None
    """Seconds until the job began."""
    findings: tuple[Finding, ...] = ()
    report: NodeReport | None = None

    @property
    def verdict(self) -> ProbeVerdict:
        """The worst of what was found."""
        return worst(self.findings)


@dataclass(frozen=True)
class ProbeResult:
    """What all pools said."""

    pools: tuple[PoolProbe, ...]
    at: float
    """When it was over: seconds since 1970."""
    seconds: float
    jobs: bool
    """Whether there were jobs; without, this machine was looked at."""

    @property
    def verdict(self) -> ProbeVerdict:
        """The worst of all pools."""
        return worst(tuple(finding for pool in self.pools for finding in pool.findings))


ProbeWatcher = Callable[[Sequence[PoolProbe]], None]


@dataclass(frozen=True)
class Pace:
    """Where time comes from."""

    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


def probe(
    plan: Plan,
    out: Path,
    *,
    wait: float | None = None,
    listen: ProbeWatcher | None = None,
    packing: Progress = unheard,
    pace: Pace | None = None,
) -> ProbeResult:
    """Probe all pools at once and come back when all have answered, or will not. No job and no file is left.

    Raises `network` when the driver cannot listen as the backend's settings say.
    """
    pace, wait = pace or Pace(), PATIENCE if wait is None else wait
    began = pace.clock()
    token = secrets.token_hex(8)
    question = question_for_all(plan, out, token=token)
    setup = WorkerSetup(plan)
    setup.check(time.time())
    with signals.raised():
        setup.prepare(packing)
    point = backend_of(plan).meeting_point(plan.placement.pools)
    delivered = {pool.name: setup.credentials.delivered_to(pool.name) for pool in plan.placement.pools}
    try:
        identities = identities_of(token)
        listener = None if point is None else ReportListener(point, identities.driver, delivered)
        deaf = ""
    except OSError as problem:
        listener, deaf = None, problem.strerror or str(problem)
    if listener is not None:
        question = replace(question, host=listener.host, port=listener.port)
    inherited = setup.credentials.used_here() if point is None else nullcontext()
    with signals.noted() as interruptions, inherited, listener or nullcontext(), _run_in(out, token) as run:
        identities.workers.write(run.identity)
        probes = [
            _PoolUnderProbe(plan, pool, question, run, setup, jobs=point is not None, wait=wait, pace=pace)
            for pool in plan.placement.pools
        ]
        _carry_out(probes, listener, listen or (lambda _: None), pace, interruptions)
        found = tuple(one.result(unheard=deaf) for one in probes)
    result = ProbeResult(found, time.time(), pace.clock() - began, jobs=point is not None)
    _keep(plan, result)
    return result


class _PoolUnderProbe:
    """A pool, its job, and what is expected of it."""

    def __init__(
        self,
        plan: Plan,
        pool: PlacedPool,
        question: Question,
        run: LaunchingRun,
        setup: WorkerSetup,
        *,
        jobs: bool,
        wait: float,
        pace: Pace,
    ) -> None:
        strategy: Strategy = strategy_of(plan, pool) if jobs else LocalStrategy()
        self.pool, self.strategy = pool, pool.strategy if jobs else "local"
        launch = setup.launch(pool, run, lifetime=strategy.lifetime) or setup.complete(
            Launch(run, pool.name, pool.granted, module=_HERE)
        )
        question = replace(
            question,
            pool=pool.name,
            modules=(launch.module or _HERE,),
            credentials=credentials_asked(setup.credentials.of(pool.name)) if question.host or not jobs else (),
            scratch=launch.scratch,
        )
        identity = SentFile(run.identity)
        launch = replace(
            launch,
            module="cenote.execution.probe.node",
            software="",
            arguments=words(as_word(question), Sent(identity.name)),
            files=tuple(dict.fromkeys((*launch.files, identity))),
        )
        worker = worker_name(pool.name, 1)
        self.attempt = Attempt(strategy, launch, worker, token=question.token, wait=wait, clock=pace.clock)
        self._expected = expected_of(plan, pool, question)

    def now(self) -> PoolProbe:
        """How it stands."""
        attempt = self.attempt
        return PoolProbe(
            self.pool.name, self.strategy, attempt.phase, str(attempt.job or ""), attempt.words, attempt.waited
        )

    def result(self, *, unheard: str) -> PoolProbe:
        """What came out."""
        report = self.attempt.report
        findings = [self.attempt.finding()]
        if report is not None:
            findings += judge(self._expected, report)
            if unheard:
                words = f"not tried, because the driver cannot listen now: {unheard}"
                hint = "another run may hold the port: probe again when it has ended"
                findings.append(Finding("network", "warning", words, hint=hint))
        return replace(self.now(), findings=tuple(findings), report=report)


def _carry_out(
    probes: Sequence[_PoolUnderProbe],
    listener: ReportListener | None,
    listen: ProbeWatcher,
    pace: Pace,
    interruptions: Interruptions,
) -> None:
    try:
        while True:
            interruptions.check()
            came = {report.pool: report for report in listener.reports()} if listener else {}
            for one in probes:
                one.attempt.step(came.get(one.pool.name))
                listen([other.now() for other in probes])
            if all(one.attempt.over for one in probes):
                return
            pace.pause(_LOOK_EVERY)
    finally:
        with ExitStack() as at_last:  # all of them, though one may raise
            for one in probes:
                at_last.callback(one.attempt.close)
            at_last.callback(_see_off, [one.attempt for one in probes], pace, interruptions)
            for one in probes:
                at_last.callback(one.attempt.cancel)


def _see_off(attempts: Sequence[Attempt], pace: Pace, interruptions: Interruptions) -> None:
    """Wait until cancelled jobs are gone: a batch system may complain about files that vanish under it."""
    until = pace.clock() + _GOODBYE
    while not all(attempt.is_gone() for attempt in attempts) and pace.clock() < until and not interruptions.hurried:
        pace.pause(_LOOK_EVERY)


@contextmanager
def _run_in(out: Path, token: str) -> Iterator[LaunchingRun]:
    """The jobs' output is where a run would have it; gone afterwards, with all that was made for it."""
    home = RunFolder(out.absolute())
    path, debug = home.path, home.debug_root
    made = [folder for folder in (debug, *debug.parents) if not folder.exists()]
    run = LaunchingRun(f"probe-{token[:8]}", debug / f"probe-{token[:8]}", RunLocation.here(path))
    try:
        run.make_folders()
    except OSError as problem:
        raise error(
            USAGE,
            f"the jobs' output would be in {out}, which is not writable: {problem.strerror}",
            hint="choose another folder for the run",
        ) from problem
    try:
        yield run
    finally:
        shutil.rmtree(run.output, ignore_errors=True)
        with suppress(OSError):  # somebody else put something there meanwhile
            for folder in made:
                folder.rmdir()


def _keep(plan: Plan, result: ProbeResult) -> None:
    workflow = str(plan.workflow.file.absolute())
    keys = {pool.name: probe_key(plan, pool) for pool in plan.placement.pools}
    ProbeHistory().keep(
        {
            keys[one.pool]: Probed(result.at, workflow, one.report.host if one.report else "", one.findings)
            for one in result.pools
        }
    )
