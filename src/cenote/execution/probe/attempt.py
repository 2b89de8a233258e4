"""Follow one job of a probe: handed in, waiting, running, gone; and say what became of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from cenote.common.errors import CenoteError, Problem
from cenote.common.units import format_seconds
from cenote.engine.messages import JobState
from cenote.execution.launch import Launch
from cenote.execution.probe.listener import read_report
from cenote.execution.probe.node import ALL_SECONDS
from cenote.execution.probe.report import MARK, NodeReport
from cenote.execution.runtime.job_queue import ASK_AGAIN
from cenote.execution.strategies.interface import OVER, JobId, JobStatus, Strategy
from cenote.execution.worker.process.user_output import last_lines
from cenote.planning.probes.result import Finding

ProbePhase = Literal["asking", "waiting", "running", "reported", "over"]

_FIRST_LOOK = 1.0
"""Seconds from handing a job in, or cancelling it, to the first look at it."""
_TOO_LONG = ALL_SECONDS + 60
"""Seconds that a job may run: longer than it takes to try everything."""
_TO_END = 20.0
"""Seconds that a job has to end by itself after its report."""
_ARRIVAL = {JobState.ENDED: 10.0, JobState.FAILED: 2.0}
"""Seconds that its output may take to arrive after its end: shared file systems are slow to agree. One that failed is
not expected to have reported."""


class Attempt:
    """One job. `step` is called again and again until it is over."""

    def __init__(
        self, strategy: Strategy, launch: Launch, worker: str, *, token: str, wait: float, clock: Callable[[], float]
    ) -> None:
        self._launch, self._worker = launch, worker
        self.job: JobId | None = None
        self.report: NodeReport | None = None
        self.status = JobStatus(JobState.PENDING)
        self.over = False
        self._strategy, self._token, self._wait, self._clock = strategy, token, wait, clock
        self._asked = clock()
        self._next = 0.0
        """When the batch system may be asked again."""
        self._began: float | None = None
        self._reported: float | None = None
        self._ended: float | None = None
        self._refusal: Problem | None = None
        self._given_up = ""
        self._gone = False

    @property
    def phase(self) -> ProbePhase:
        """How far it is."""
        if self.over:
            return "over"
        if self.report is not None:
            return "reported"
        if self.job is None:
            return "asking"
        return "waiting" if self._began is None else "running"

    @property
    def waited(self) -> float | None:
        """Seconds from asking until it began; None as long as it did not."""
        return None if self._began is None else self._began - self._asked

    @property
    def words(self) -> str:
        """What the batch system says of it."""
        if self._refusal is not None:
            return self._refusal.message
        native, reason = self.status.native, self.status.reason
        return f"{native}: {reason}" if native and reason and native not in reason else reason or native

    def step(self, report: NodeReport | None) -> None:
        """Ask, look, and decide whether to go on. `report` is what came over the network."""
        if self.over:
            return
        if report is not None:
            self._take(report)
        if self._clock() >= self._next:
            self._submit() if self.job is None else self._poll()
        self._decide()

    def close(self) -> None:
        """Let go of what was held to start it; the last thing that is done."""
        self._strategy.close()

    def cancel(self) -> None:
        """Take the job out of the queue, or end it; fine for one that is gone."""
        if self.job is not None and (self.status.state not in OVER or self.status.needs_cancel):
            self._strategy.cancel([self.job])
            self._look_in(_FIRST_LOOK)

    def is_gone(self) -> bool:
        """Whether the batch system has no such job any more; it is asked no more often than it may."""
        if self._gone or self.job is None or self.status.state in OVER:
            return True
        if self._clock() >= self._next:
            self._look_in(self._strategy.seconds_between_polls)
            seen = self._strategy.poll([self.job]).get(self.job)
            self._gone = seen is not None and seen.state in OVER
        return self._gone

    def _look_in(self, seconds: float) -> None:
        self._next = self._clock() + min(seconds, self._strategy.seconds_between_polls)

    # doing

    def _submit(self) -> None:
        try:
            (self.job,) = self._strategy.submit(self._launch, [self._worker])
        except CenoteError as problem:
            self._refusal = problem.problems[0]
            self._next = self._clock() + ASK_AGAIN
            return
        self._refusal = None
        self._look_in(_FIRST_LOOK)

    def _poll(self) -> None:
        assert self.job is not None  # there is nothing to look at before
        self._look_in(self._strategy.seconds_between_polls)
        self.status = self._strategy.poll([self.job]).get(self.job, self.status)
        if self.status.state is JobState.RUNNING or self.status.state in OVER:
            self._begun()
        if self.status.state in OVER and self._ended is None:
            self._ended = self._clock()

    def _begun(self) -> None:
        self._began = self._clock() if self._began is None else self._began

    def _take(self, report: NodeReport) -> None:
        self.report = report
        self._begun()
        self._reported = self._clock()
        if self.job is not None:
            self._strategy.workers_left([self.job])

    # deciding

    def _decide(self) -> None:
        now = self._clock()
        if self._ended is not None:
            self._decide_after_end(now - self._ended)
        elif self._reported is not None:
            self.over = now - self._reported > _TO_END
        elif self.job is None and self._refusal is not None and not self._refusal.kind.transient:
            self.over = True
        elif self._began is None and now - self._asked >= self._wait:
            self._give_up(f"did not start within {format_seconds(self._wait)}")
        elif self._began is not None and now - self._began > _TOO_LONG:
            self._give_up(f"has run for {format_seconds(now - self._began)} without reporting")

    def _decide_after_end(self, seconds: float) -> None:
        if self.report is None:
            written = _written(self._launch.run.folder("out") / self._worker, self._token)
            if written is not None:
                self._take(written)
        self.over = self.report is not None or self.status.needs_cancel or seconds > _ARRIVAL[self.status.state]

    def _give_up(self, words: str) -> None:
        self.over, self._given_up = True, words

    def finding(self) -> Finding:
        """What became of the job itself."""
        if self.report is not None:
            after = f", started after {format_seconds(self.waited)}" if self.waited is not None else ""
            job = f" as job {self.job}" if self.job is not None else ""
            return Finding("job", "ok", f"ran on {self.report.host}{job}{after}")
        if self.job is None:
            said = self._refusal.message if self._refusal is not None else "it was not requested"
            refused = self._refusal is not None and not self._refusal.kind.transient
            hint = (self._refusal.hint if self._refusal is not None else None) or (
                "`cenote plan --show-jobs` shows what is submitted" if refused else "ask again when it answers"
            )
            return Finding("job", "problem", f"{'refused' if refused else 'not taken'}: {said}", hint=hint)
        said = f" ({self.words})" if self.words else ""
        lines = tuple(last_lines(self._launch.run.folder("err") / self._worker).splitlines())
        if self._given_up:
            hint = "it was cancelled; --wait gives it longer" if self._began is None else "it was cancelled"
            return Finding("job", "problem", f"job {self.job} {self._given_up}{said}", hint=hint, lines=lines)
        hint = "see its last output" if lines else "a worker would end the same way, before it joins"
        return Finding("job", "problem", f"job {self.job} ended without a report{said}", hint=hint, lines=lines)


def _written(file: Path, token: str) -> NodeReport | None:
    """The report among what the job printed; prologues and the like may print too."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return None
    mark = MARK.encode()
    found = (read_report(line.removeprefix(mark)) for line in lines if line.startswith(mark))
    return next((report for report in found if report is not None and report.token == token), None)
