"""Read what Slurm says of jobs: `squeue` for those in its queue, `scontrol` for those that are over."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import unquote

from cenote.engine.messages import JobState
from cenote.execution.launch import RunLocation
from cenote.execution.strategies.interface import JobId, JobStatus, TracedJob
from cenote.execution.strategies.support.batch import NativeStates, NoAnswerError, ask
from cenote.execution.strategies.support.exits import series_of

_PENDING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD")
_RUNNING = ("RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT", "COMPLETING")
_FAILED = (
    *("CANCELLED", "FAILED", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED", "SPECIAL_EXIT"),
)
STATES: NativeStates = {
    **dict.fromkeys(_PENDING, (JobState.PENDING, "unknown")),
    **dict.fromkeys(_RUNNING, (JobState.RUNNING, "unknown")),
    **dict.fromkeys(_FAILED, (JobState.FAILED, "died")),
    **dict.fromkeys(("TIMEOUT", "DEADLINE"), (JobState.ENDED, "walltime")),
    "COMPLETED": (JobState.ENDED, "retired"),
    "PREEMPTED": (JobState.FAILED, "preempted"),
    "OUT_OF_MEMORY": (JobState.FAILED, "oom"),
}
_LINE = re.compile(r"(?P<job>\d+(?:_\d+)?)\|(?P<state>[A-Z_]+)\|(?P<reason>.*)")
_FACT = re.compile(r"(\w+)=(\S*)")
_OURS = re.compile(
    r"(?P<job>\d+(?:_(?P<index>\d+))?)\|(?P<state>[A-Z_]+)\|(?P<asked>[^|]*)"
    r"\|cenote-(?P<run>(?:service-)?[^-|]+)-(?P<worker>[^|]+)\|(?P<comment>.*)"
)
"""A line of squeue about a job of ours: the name says whose (a service is one, too), the comment where it lives."""


def job_status(state: str, reason: str) -> JobStatus:
    """`CANCELLED by 1000` and `CANCELLED+` are CANCELLED; a word that is not in the table stays unknown."""
    word = state.split(" ")[0].rstrip("+")
    meaning, cause = STATES.get(word, (JobState.UNKNOWN, "unknown"))
    said = "" if reason in ("None", "(null)", "") else reason.strip("()")
    if meaning is JobState.FAILED or cause == "walltime":
        said = f"Slurm says {word}" + (f" ({said})" if said else "")
    return JobStatus(meaning, word, said, cause)


def number_of(job: JobId) -> str:
    """Of the array that the job belongs to, or its own."""
    return job.partition("_")[0]


def queued(numbers: Sequence[str]) -> tuple[dict[JobId, JobStatus], bool]:
    """What squeue says of these jobs, and whether all of what it said was understood."""
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r", f"--jobs={','.join(numbers)}"]
    matches = [_LINE.fullmatch(line.strip()) for line in _ask(command).splitlines() if line.strip()]
    found = {JobId(match["job"]): job_status(match["state"], match["reason"]) for match in matches if match}
    return found, None not in matches


def own_numbers(numbers: Sequence[str]) -> dict[JobId, str]:
    """Running jobs → the number that each has for itself, also in an array: `srun` of 22.05 knows no other."""
    wanted = ["--noheader", "--array", "--states=running", "--format=%i|%A", f"--jobs={','.join(numbers)}"]
    pairs = [line.strip().split("|") for line in _ask(["squeue", *wanted]).splitlines()]
    return {JobId(pair[0]): pair[1] for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def job_details(number: str) -> dict[JobId, dict[str, str]]:
    """What scontrol says of a job or of every job of an array; nothing when it has forgotten them."""
    found = {}
    for line in _ask(["scontrol", "--oneliner", "show", "job", number]).splitlines():
        facts = dict(_FACT.findall(line))
        if "ArrayTaskId" in facts and "ArrayJobId" in facts:
            found[JobId(f"{facts['ArrayJobId']}_{facts['ArrayTaskId']}")] = facts
        elif "JobId" in facts:
            found[JobId(facts["JobId"])] = facts
    return found


def _ask(command: Sequence[str]) -> str:
    """What a command prints; nothing when Slurm has forgotten all of the jobs, which 22.05 calls invalid then."""
    try:
        return ask(command)
    except NoAnswerError as problem:
        if "invalid job id" not in str(problem).lower():
            raise
        return ""


def own_jobs() -> list[TracedJob]:
    """Jobs of this user that carry our names and are not over."""
    me = f"--user={os.geteuid()}"  # older than --me, which is of Slurm 20.02
    text = ask(["squeue", me, "--noheader", "--array", "--format=%i|%T|%V|%j|%k"])
    matches = [_OURS.fullmatch(line.strip()) for line in text.splitlines()]
    return [_traced(match) for match in matches if match]


def _traced(line: re.Match[str]) -> TracedJob:
    facts = dict(_FACT.findall(line["comment"]))  # where a site writes comments of its own, the name must do
    worker = line["worker"]  # of an array: its first one
    pool = worker.rpartition("-")[0]
    if line["index"]:
        worker = series_of([worker]).name(int(line["index"]))
    return TracedJob(
        job=JobId(line["job"]),
        run=facts["run"] if "run" in facts else line["run"],
        pool=unquote(facts["pool"]) if "pool" in facts else pool,
        worker=worker,
        native=line["state"],
        since=_moment(line["asked"]),
        home=RunLocation.read(facts.get("home", "")),
    )


def _moment(text: str) -> float | None:
    """Slurm tells the time of the machine: `2026-11-16T02:27:29`."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
