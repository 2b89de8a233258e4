"""Read what HTCondor says of jobs: its queue, its history, its analysis of a job that waits."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from cenote.common.values import dataclass
from cenote.engine.messages import JobState, LossCause
from cenote.execution.launch import RunLocation
from cenote.execution.strategies.interface import JobId, JobStatus, TracedJob
from cenote.execution.strategies.support.batch import NativeStates, NoAnswerError, ask, mebibytes
from cenote.execution.strategies.support.exits import exit_status
from cenote.language.execution import Amounts

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
_HOLD_CAUSES: dict[int, LossCause] = {34: "oom", 46: "walltime", 47: "walltime"}
"""HoldReasonCode → cause; every other hold is a death."""
_ATTRIBUTES = (
    "ClusterId,ProcId,JobStatus,NumJobStarts,HoldReason,HoldReasonCode,LastRejMatchReason,RemoveReason,VacateReason,"
    "ExitBySignal,ExitCode,ExitSignal"
)
_MARKS = "ClusterId,ProcId,JobStatus,QDate,CenoteRun,CenotePool,CenoteWorker,CenoteHome"

ClassAd = dict[str, Any]
"""Facts about a job, as HTCondor prints them in JSON."""


def jobs_in_queue(clusters: Sequence[str]) -> dict[JobId, ClassAd]:
    """What condor_q says of the jobs of these clusters."""
    return _ads(["condor_q", "-json", "-attributes", _ATTRIBUTES, *clusters])


def jobs_in_history(jobs: Sequence[JobId]) -> dict[JobId, ClassAd]:
    """What condor_history says of these jobs."""
    return _ads(["condor_history", "-json", "-attributes", _ATTRIBUTES, "-limit", str(len(jobs)), *jobs])


def own_jobs() -> list[TracedJob]:
    """Jobs of this user, for condor_q shows no others, that carry our marks: also held ones, and those that are over
    and stay."""
    ads = _ads(["condor_q", "-json", "-attributes", _MARKS, "-constraint", "CenoteRun =!= undefined"])
    return [_traced(job, ad) for job, ad in ads.items()]


def _ads(command: Sequence[str]) -> dict[JobId, ClassAd]:
    """What a command prints in JSON, by job. Nothing at all is no jobs; anything but a list is no answer."""
    text = ask(command).strip()
    try:
        ads = json.loads(text or "[]")
        return {JobId(f"{ad['ClusterId']}.{ad['ProcId']}"): ad for ad in ads}
    except (ValueError, TypeError, KeyError) as problem:
        raise NoAnswerError(f"{command[0]} answered with something that is not a list of jobs") from problem


def _traced(job: JobId, ad: ClassAd) -> TracedJob:
    return TracedJob(
        job=job,
        run=str(ad.get("CenoteRun", "")),
        pool=str(ad.get("CenotePool", "")),
        worker=str(ad.get("CenoteWorker", "")),
        native=_WORDS.get(ad.get("JobStatus", 0), str(ad.get("JobStatus", ""))),
        since=ad.get("QDate"),
        home=RunLocation.read(str(ad.get("CenoteHome", ""))),
    )


def status_of_queued(ad: ClassAd) -> JobStatus:
    """A job in the queue."""
    word = _WORDS.get(ad.get("JobStatus", 0), "")
    if word == "IDLE" and ad.get("NumJobStarts", 0) > 0:
        reason = f"it lost its machine: {ad.get('VacateReason') or 'HTCondor gives no reason'}"
        return JobStatus(JobState.FAILED, word, reason, "preempted", needs_cancel=True)
    if word == "HELD":
        cause = _HOLD_CAUSES.get(ad.get("HoldReasonCode", 0), "died")
        state = JobState.ENDED if cause == "walltime" else JobState.FAILED
        return JobStatus(state, word, f"HTCondor holds it: {ad.get('HoldReason', '')}", cause, needs_cancel=True)
    if word in ("REMOVED", "COMPLETED"):
        return status_of_ended(ad)
    return JobStatus(*STATES.get(word, (JobState.UNKNOWN, "unknown"))[:1], native=word or str(ad.get("JobStatus")))


def status_of_ended(ad: ClassAd) -> JobStatus:
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


# Read HTCondor's analysis of a job that waits: which conditions no machine meets, and whether any can.


_SECONDS = 10.0
"""An analysis looks at every machine of the pool."""
_UNMET = re.compile(r"^\[\d+\]\s+0\s+(\S.*?)\s*$", re.MULTILINE)
_DEFINED = re.compile(r"^ {4}(\w+) = (\S.*?)\s*$", re.MULTILINE)
_SUMMARY = re.compile(r"Of (\d+) machines,\s+(\d+) are rejected by your job's requirements")


@dataclass(frozen=True)
class MatchAnalysis:
    """What HTCondor says about the machines that a job could go to."""

    unmet: tuple[str, ...] = ()
    """Conditions of the job that no slot meets now."""
    machines: int = 0
    rejected: int = 0
    """Machines that the job's own requirements rule out, however idle they were."""
    asked: tuple[tuple[str, str], ...] = ()
    """What the job asks for: (`RequestMemory`, `9000000 (mb)`)."""

    @property
    def hopeless(self) -> bool:
        """Whether there are machines and none of them could ever take the job, which has not begun on one.

        A job of ours that has begun is analysed as one that no machine may have: it must not begin once more.
        """
        return 0 < self.machines == self.rejected and dict(self.asked).get("NumJobStarts", "0") == "0"

    @property
    def about_amounts(self) -> bool:
        """Whether what is missing may only be taken by others at the moment."""
        return any("Request" in condition for condition in self.unmet)

    @property
    def in_words(self) -> str:
        """As HTCondor words it."""
        conditions = " and ".join(self.unmet)
        amounts = [f"{name} = {value}" for name, value in self.asked if re.search(rf"\b{name}\b", conditions)]
        of_which = f", with {', '.join(amounts)}" if amounts else ""
        lacks = f": no machine has {conditions}{of_which}" if conditions else ""
        return f"of {self.machines} machines, {self.rejected} are rejected by the job's requirements{lacks}"


def some_slot_holds(wanted: Amounts) -> bool:
    """Whether a slot, emptied, has such amounts; yes where nobody can tell.

    Versions differ in how they analyse a slot that is divided: as it is now, or as if nothing ran there.
    """
    amounts = {
        "Cpus": wanted.cpus,
        "Memory": wanted.memory and mebibytes(wanted.memory),
        "Disk": wanted.disk and -(-wanted.disk // 1024),
        "GPUs": wanted.gpus,
    }
    conditions = [f"TotalSlot{name} >= {amount}" for name, amount in amounts.items() if amount]
    try:
        found = ask(["condor_status", "-constraint", " && ".join(conditions) or "true", "-af", "Name"])
    except (NoAnswerError, TimeoutError):
        return True
    return bool(found.strip())


def analysis_of(job: JobId) -> MatchAnalysis:
    """Ask HTCondor; what it does not say in time is not known."""
    try:
        text = ask(["condor_q", "-better-analyze", job], seconds=_SECONDS)
    except (NoAnswerError, TimeoutError):
        return MatchAnalysis()
    summary = _SUMMARY.search(text)
    about_the_job = text.partition("defines the following attributes:")[2].partition("\nslot")[0]
    return MatchAnalysis(
        unmet=tuple(_UNMET.findall(text)),
        machines=int(summary[1]) if summary else 0,
        rejected=int(summary[2]) if summary else 0,
        asked=tuple(_DEFINED.findall(about_the_job)),
    )
