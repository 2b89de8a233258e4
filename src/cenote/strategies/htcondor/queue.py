"""Read what HTCondor says of jobs: `condor_q` for those in its queue, `condor_history` for those gone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cenote.engine.messages import JobState, LossCause
from cenote.launch import RunLocation
from cenote.strategies.interface import JobId, JobStatus, TracedJob
from cenote.strategies.support.batch import NativeStates, NoAnswerError, ask
from cenote.strategies.support.exits import exit_status

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
