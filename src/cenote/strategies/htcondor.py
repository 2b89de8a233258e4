"""This file is the HTCondor strategy: workers are jobs, many of them one cluster of jobs.

Seen with HTCondor 23.9; it needs `condor_submit`, `condor_q`, `condor_history` and `condor_rm`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import PrivateAttr

from cenote.errors import BATCH_SYSTEM, CenoteError, error
from cenote.strategies._alike import WORKER, alike
from cenote.strategies._batch import (
    Answer,
    BatchStrategy,
    NativeStates,
    NoAnswerError,
    ask,
    cancel_with,
    exit_status,
    hand_in,
    mebibytes,
    try_to,
)
from cenote.strategies.interface import EndCause, JobId, JobRequest, JobState, JobStatus

STATES: NativeStates = {
    "IDLE": (JobState.PENDING, "unknown"),
    "RUNNING": (JobState.RUNNING, "unknown"),
    "REMOVED": (JobState.FAILED, "died"),
    "COMPLETED": (JobState.ENDED, "retired"),
    "HELD": (JobState.FAILED, "died"),
    "TRANSFERRING_OUTPUT": (JobState.RUNNING, "unknown"),
    "SUSPENDED": (JobState.RUNNING, "unknown"),
}
_WORDS = {1: "IDLE", 2: "RUNNING", 3: "REMOVED", 4: "COMPLETED", 5: "HELD", 6: "TRANSFERRING_OUTPUT", 7: "SUSPENDED"}
_HOLD_CAUSES: dict[int, EndCause] = {34: "oom", 46: "walltime", 47: "walltime"}
"""HoldReasonCode → cause; every other hold is a death."""
_ATTRIBUTES = (
    "ClusterId,ProcId,JobStatus,NumJobStarts,HoldReason,HoldReasonCode,LastRejMatchReason,RemoveReason,VacateReason,"
    "ExitBySignal,ExitCode,ExitSignal"
)
_PASSING = ("failed to connect", "can't find address", "timed out", "communication", "failed to fetch", "unreachable")
_TAKEN = re.compile(r"^\s*(\d+)\.(\d+) - (\d+)\.(\d+)\s*$", re.MULTILINE)
_UNMATCHED = re.compile(r"^\[\d+\]\s+0\s+(\S.*?)\s*$", re.MULTILINE)
_ANALYSE_SECONDS = 60.0
"""Between two analyses of why the same jobs wait: they are expensive for the batch system."""
_NEVER_TWICE = "(MY.NumJobStarts =?= undefined || MY.NumJobStarts == 0)"
"""A worker that lost its machine must not return: its name was given up."""

ClassAd = dict[str, Any]
"""Facts about a job, as HTCondor prints them in JSON."""


class HTCondor(BatchStrategy):
    """Starts workers as HTCondor jobs; without `transfer_files` the machines must see the run's folder."""

    system: ClassVar[str] = "HTCondor"

    job_flavour: str | None = None
    """The queue, where a site has job flavours: `longlunch`."""
    requirements: str | None = None
    """A ClassAd expression that a machine must meet."""
    accounting_group: str | None = None
    """Who is charged."""
    classads: Mapping[str, str | bool | int | float] = {}
    """Further attributes of the jobs: `{ProjectName: hep}`; text is written in quotes."""
    directives: tuple[str, ...] = ()
    """Further lines of the submit description: `[rank = Memory]`."""
    variables: tuple[str, ...] = ("HOME", "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "X509_USER_PROXY", "X509_CERT_DIR")
    """Environment variables of the submitting shell that the workers get."""
    transfer_files: bool = False
    """Whether output comes back by HTCondor's own file transfer; the data and this Python must still be there."""

    _analysed: dict[str, tuple[float, str]] = PrivateAttr(default_factory=dict)
    """Cluster of jobs → when it was analysed, and why its jobs wait."""

    def render(self, request: JobRequest) -> str:
        """The submit description."""
        (description,) = self.render_all([request])
        return description

    def render_all(self, requests: Sequence[JobRequest]) -> list[str]:
        """The submit descriptions: one for workers that differ in their names only."""
        return [self._description(request, workers) for request, workers in alike(requests)]

    def submit(self, requests: Sequence[JobRequest]) -> list[JobId]:
        """Hand the descriptions to condor_submit. What was taken before one was refused is taken back."""
        jobs: list[JobId] = []
        for request, workers in alike(requests):
            try:
                jobs += self._submitted(request, workers)
            except CenoteError:
                self.cancel(jobs)
                taken_after_all = f'CenoteRun == "{request.run}" && CenoteFirst == "{workers[0]}"'
                try_to(["condor_rm", "-constraint", taken_after_all])
                raise
        return jobs

    def cancel(self, jobs: Sequence[JobId]) -> None:
        """`condor_rm`, which complains about jobs that are gone, and is not listened to."""
        cancel_with(["condor_rm"], jobs)

    # submitting

    def _submitted(self, request: JobRequest, workers: tuple[str, ...]) -> list[JobId]:
        answer = hand_in(["condor_submit", "-terse", "-"], self._description(request, workers), passing=_PASSING)
        jobs = []
        for cluster, first, _, last in _TAKEN.findall(answer):
            jobs += [JobId(f"{cluster}.{process}") for process in range(int(first), int(last) + 1)]
        if len(jobs) != len(workers):
            self.cancel(jobs)
            raise error(BATCH_SYSTEM, f"condor_submit did not answer with {len(workers)} jobs but with {answer!r}")
        return jobs

    def _description(self, request: JobRequest, workers: tuple[str, ...]) -> str:
        executable, *words = request.command
        name = workers[0] if len(workers) == 1 else "$(worker)"
        wanted = request.resources
        lines = {
            "universe": "vanilla",
            "batch_name": _plain(f"cenote-{request.run}-{request.pool}"),
            "executable": _plain(executable),
            "transfer_executable": "false",
            "arguments": _quoted_words(words),
            "environment": _quoted_words([f"{name}={value}" for name, value in request.variables.items()]),
            "getenv": ", ".join(self.variables) or "false",
            "output": _plain(str(request.out)),
            "error": _plain(str(request.err)),
            "log": _plain(str(request.out.parent.parent / "logs" / f"{request.pool}.htcondor")),
            "should_transfer_files": "YES" if self.transfer_files else "NO",
            "request_cpus": str(max(1, math.ceil(wanted.cpus or 1))),
            "request_memory": str(mebibytes(wanted.memory)) if wanted.memory else None,
            "request_disk": str(-(-wanted.disk // 1024)) if wanted.disk else None,
            "request_gpus": str(wanted.gpus) if wanted.gpus else None,
            "requirements": f"({self.requirements}) && {_NEVER_TWICE}" if self.requirements else _NEVER_TWICE,
            "accounting_group": self.accounting_group,
            "notification": "never",
            **self._ends(),
            **{f"+{name}": _literal(value) for name, value in self._attributes(request, workers).items()},
        }
        written = [f"{name} = {value}" for name, value in lines.items() if value is not None]
        queue = "queue" if len(workers) == 1 else f"queue worker in ({', '.join(workers)})"
        return "\n".join([*written, *self.directives, queue, ""]).replace(WORKER, name)

    def _ends(self) -> dict[str, str]:
        if self.walltime is None:
            return {}
        return {"periodic_remove": f"JobStatus == 2 && time() - JobCurrentStartDate > {self.walltime}"}

    def _attributes(self, request: JobRequest, workers: tuple[str, ...]) -> dict[str, str | bool | int | float]:
        ours: dict[str, str | bool | int | float] = {
            "CenoteRun": request.run,
            "CenotePool": request.pool,
            "CenoteFirst": workers[0],
        }
        if self.job_flavour is not None:
            ours["JobFlavour"] = self.job_flavour
        if self.walltime is not None:
            ours["MaxRuntime"] = self.walltime
        return ours | dict(self.classads)

    # looking

    def _look(self, jobs: Sequence[JobId]) -> Answer:
        clusters = sorted({job.partition(".")[0] for job in jobs}, key=int)
        queued = _ads(["condor_q", "-json", "-attributes", _ATTRIBUTES, *clusters])
        gone = [job for job in jobs if job not in queued]
        ended = (
            _ads(["condor_history", "-json", "-attributes", _ATTRIBUTES, "-limit", str(len(gone)), *gone])
            if gone
            else {}
        )
        found = {job: self._queued(job, queued[job]) for job in jobs if job in queued}
        return Answer(found | {job: _over(ended[job]) for job in gone if job in ended})

    def _queued(self, job: JobId, ad: ClassAd) -> JobStatus:
        word = _WORDS.get(ad.get("JobStatus", 0), "")
        if word == "IDLE" and ad.get("NumJobStarts", 0) > 0:
            reason = f"it lost its machine: {ad.get('VacateReason') or 'HTCondor says no more'}"
            return JobStatus(JobState.FAILED, word, reason, "preempted", lingers=True)
        if word == "HELD":
            cause = _HOLD_CAUSES.get(ad.get("HoldReasonCode", 0), "died")
            state = JobState.ENDED if cause == "walltime" else JobState.FAILED
            return JobStatus(state, word, f"HTCondor holds it: {ad.get('HoldReason', '')}", cause, lingers=True)
        if word == "IDLE":
            return JobStatus(JobState.PENDING, word, self._why_idle(job, ad))
        if word in ("REMOVED", "COMPLETED"):
            return _over(ad)
        return JobStatus(*STATES.get(word, (JobState.UNKNOWN, "unknown"))[:1], native=word or str(ad.get("JobStatus")))

    def _why_idle(self, job: JobId, ad: ClassAd) -> str:
        """What the matchmaker said, and, when it found nothing, the conditions that no machine meets."""
        said = str(ad.get("LastRejMatchReason", "")).strip()
        cluster = job.partition(".")[0]
        at, known = self._analysed.get(cluster, (-math.inf, ""))
        if said and self._clock() - at > _ANALYSE_SECONDS:
            known = _unmatched(job)
            self._analysed[cluster] = (self._clock(), known)
        return f"{said}: no machine has {known}" if said and known else said


def _unmatched(job: JobId) -> str:
    try:
        text = ask(["condor_q", "-better-analyze", job])
    except (NoAnswerError, TimeoutError):
        return ""
    return " and ".join(_UNMATCHED.findall(text))


def _ads(command: Sequence[str]) -> dict[JobId, ClassAd]:
    """What a command prints in JSON, by job. Nothing at all is no jobs; anything but a list is no answer."""
    text = ask(command).strip()
    try:
        ads = json.loads(text or "[]")
        return {JobId(f"{ad['ClusterId']}.{ad['ProcId']}"): ad for ad in ads}
    except (ValueError, TypeError, KeyError) as problem:
        raise NoAnswerError(f"{command[0]} said something that is no list of jobs") from problem


def _over(ad: ClassAd) -> JobStatus:
    """A job that left the queue, or is about to."""
    word = _WORDS.get(ad.get("JobStatus", 0), "")
    if word == "COMPLETED":
        signal = int(ad.get("ExitSignal", 0)) if ad.get("ExitBySignal") else 0
        return exit_status(int(ad.get("ExitCode", 0)), signal, word)
    reason = str(ad.get("RemoveReason", ""))
    if "PeriodicRemove" in reason:
        return JobStatus(JobState.ENDED, word, f"its walltime was over: {reason}", "walltime")
    if word == "REMOVED":
        return JobStatus(JobState.FAILED, word, f"HTCondor removed it: {reason}", "died")
    return JobStatus(JobState.UNKNOWN, word, reason)


def _plain(text: str) -> str:
    """Text that stays as it is in a submit description."""
    return text.replace("$", "$(DOLLAR)")


def _quoted_words(words: Sequence[str]) -> str | None:
    """Words in HTCondor's newer quoting, which keeps spaces and quotes; None for none."""
    if not words:
        return None
    plain = [_plain(word).replace('"', '""') for word in words]
    quoted = ["'" + word.replace("'", "''") + "'" if not word or re.search(r"[\s']", word) else word for word in plain]
    return '"' + " ".join(quoted) + '"'


def _literal(value: str | bool | float) -> str:
    """A value as a ClassAd writes it."""
    return json.dumps(value)
