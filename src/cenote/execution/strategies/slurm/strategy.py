"""The Slurm strategy: workers are batch jobs, many of them one job array.

Seen with Slurm 22.05; it needs `sbatch`, `squeue`, `scontrol` and `scancel`, and no accounting database. To send files
it needs `srun` and `sbcast` too, and `sinfo` to say where a job that was refused could go.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from pydantic import PrivateAttr

from cenote.common.errors import BATCH_SYSTEM, JOB_REFUSED, CenoteError, error
from cenote.common.text import format_amounts, listed
from cenote.common.values import dataclass
from cenote.engine.messages import JobState
from cenote.execution.launch import LOG, Blank, Blanks, Launch, NodeVariable, Raw, Sent, Word
from cenote.execution.strategies.interface import OVER, JobId, JobStatus, TracedJob
from cenote.execution.strategies.slurm.file_transfer import QUICK_POLLS, FileTransfers
from cenote.execution.strategies.slurm.node_shell import FOLDER, OUTPUT, job_lines
from cenote.execution.strategies.slurm.queue import job_details, job_status, number_of, own_jobs, own_numbers, queued
from cenote.execution.strategies.support.batch import (
    BatchStrategy,
    CommandAnswer,
    NoAnswerError,
    ask,
    cancel_with,
    hand_in,
    killed_for_memory,
    mebibytes,
    one_line,
    try_to,
)
from cenote.execution.strategies.support.exits import exit_status, in_thousands, ranges, series_of
from cenote.execution.worker.process.lifetime import ENDS, STARTED
from cenote.language.execution import Amounts

# Say which partitions of a cluster could hold a job that sbatch refused.


_ABOUT_PARTITIONS = (
    *("node configuration", "partition configuration", "specification", "cpu count", "time limit"),
    *("generic resource", "invalid partition"),
)
"""Words of sbatch for a job that would fit, or would not, by where it goes."""
_COLUMNS = "%R|%c|%m|%G|%l"
_GPUS = re.compile(r"\bgpu(?::[^:,(]+)?:(\d+)")
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+)")


@dataclass(frozen=True)
class PartitionNode:
    """What a node has, and how long jobs of one of its partitions may run."""

    partition: str
    cpus: int
    memory: int
    """In MiB."""
    gpus: int
    seconds: float

    def holds(self, wanted: Amounts, walltime: int | None) -> bool:
        """Whether such a job could ever run there."""
        return (
            self.cpus >= math.ceil(wanted.cpus or 1)
            and self.memory >= mebibytes(wanted.memory or 0)
            and self.gpus >= (wanted.gpus or 0)
            and self.seconds >= (walltime or 0)
        )


def hint_for(said: str, wanted: Amounts, walltime: int | None) -> str | None:
    """What to do about what sbatch said of a job; None where partitions have nothing to do with it."""
    if not any(word in said.lower() for word in _ABOUT_PARTITIONS):
        return None
    try:
        nodes = list(_nodes(ask(["sinfo", "--noheader", "--Node", f"--format={_COLUMNS}"]).splitlines()))
    except (NoAnswerError, TimeoutError):
        return None
    able = _partitions(node for node in nodes if node.holds(wanted, walltime))
    if able:
        chosen = f"`config: {{partition: {able[0]}}}` of the pool"
        return f"by their CPUs, memory, GPUs and time these could hold it: {listed(able)}; choose one by {chosen}"
    if not nodes:
        return None
    amounts = format_amounts(wanted) or "such a job"
    return f"no partition has a node with {amounts} for that long; there are: {listed(_partitions(nodes))}"


def _partitions(nodes: Iterable[PartitionNode]) -> list[str]:
    return sorted({node.partition for node in nodes})


def _nodes(lines: Iterable[str]) -> Iterator[PartitionNode]:
    """Those that are told as expected."""
    for line in lines:
        name, _, facts = line.strip().partition("|")
        cpus, memory, gres, limit = (*facts.split("|"), "", "", "")[:4]
        if cpus.isdecimal() and memory.isdecimal():
            gpus = sum(int(count) for count in _GPUS.findall(gres))
            yield PartitionNode(name, int(cpus), int(memory), gpus, _seconds(limit))


def _seconds(limit: str) -> float:
    """`1-00:00:00`, `30:00`; `infinite` and what cannot be read are no limit."""
    match = _TIME.fullmatch(limit.strip())
    if match is None:
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


_NOWHERE = "/dev/null"
_TO_COME_HOME = 10.0
"""Seconds in which workers that were let go end and their output is fetched."""
_PASSING = ("unable to contact", "temporarily", "socket timed out", "connection", "communication", "try again")
_MEMORY_WORDS = ("oom-kill", "oom_kill", "exceeded memory limit", "exceeded job memory limit", "out-of-memory")


class Slurm(BatchStrategy):
    """Starts workers as Slurm jobs; without `transfer_files` the nodes must see the run's folder."""

    example: ClassVar[str] = """
    execution:
      backend: dask
      strategy: slurm
      pools:
        gpu: {elastic: {max: 8}, resources: {gpus: 1}, config: {partition: gpu, walltime: 4h}}
    """

    system: ClassVar[str] = "Slurm"
    set_up_nowhere: ClassVar[tuple[str, ...]] = ("Could not establish a configuration source",)

    partition: str | None = None
    """Where the jobs go: `gpu`, or several as `short,long`."""
    account: str | None = None
    """Who is charged."""
    qos: str | None = None
    """Quality of service."""
    constraint: str | None = None
    """Features that a node must have: `a100&nvlink`."""
    gpu_type: str | None = None
    """Kind of GPU, where a cluster has several: the pool's `gpus: 2` is asked for as `--gres=gpu:TYPE:2`."""
    gres: str | None = None
    """Generic resources as Slurm writes them, instead of the pool's `gpus`: `gpu:a100:1,nvme:1`."""
    tmp: bool = False
    """Whether the pool's `disk` is asked for as `--tmp`. Off, because many sites leave the TmpDisk of their nodes at 0,
    and then refuse every such request; `scontrol show node` tells."""
    nodelist: str | None = None
    """Only these nodes."""
    exclude: str | None = None
    """Not these nodes."""
    directives: tuple[str, ...] = ()
    """Further options of sbatch, as in `#SBATCH` lines: `[--reservation=hep, --exclusive]`."""
    prologue: tuple[str, ...] = ()
    """Lines of shell before the worker starts: `[module load cuda]`."""

    transfer_files: bool = False
    """Whether nodes do not see the run's folder: what a worker needs is sent to its node by Slurm (`srun`, `sbcast`),
    and what a worker printed and logged is fetched in its first minute and when it ends; what it wrote after that is
    lost if its job is cancelled, preempted, or ended by its walltime. The data must still be there, and this Python too
    unless the `environment` is a packed one."""

    _transfers: FileTransfers | None = PrivateAttr(default=None)
    _errors_of: dict[JobId, Path] = PrivateAttr(default_factory=dict)

    def render(self, launch: Launch, workers: Sequence[str]) -> list[str]:
        """The batch scripts: one with an array for each thousand of workers."""
        return [self._script(launch, some) for some in in_thousands(workers)]

    def submit(self, launch: Launch, workers: Sequence[str]) -> list[JobId]:
        """Hand the scripts to sbatch. What was taken before one was refused is taken back."""
        jobs: list[JobId] = []
        for some in in_thousands(workers):
            try:
                jobs += self._submitted(launch, some)
            except BaseException:  # Ctrl-C too: nobody would know of them
                self.cancel(jobs)
                try_to(["scancel", f"--name={_job_name(launch, some)}"])  # taken after all, perhaps
                raise
        self._errors_of.update(zip(jobs, (launch.run.folder("err") / worker for worker in workers), strict=True))
        if self.transfer_files:
            self._transfers = self._transfers or FileTransfers(self._clock)
            self._transfers.expect(jobs, workers, launch)
        return jobs

    @property
    def seconds_between_polls(self) -> float:
        """As the setting says, and more often while jobs may wait for files."""
        in_hurry = self._transfers is not None and self._transfers.in_hurry
        return min(QUICK_POLLS, self.poll_every) if in_hurry else float(self.poll_every)

    @property
    def seconds_to_end(self) -> float:
        """A job that was sent its files waits until its output was fetched."""
        return _TO_COME_HOME if self.transfer_files else 0.0

    def workers_left(self, jobs: Sequence[JobId]) -> None:
        """Fetch their output."""
        if self._transfers is not None:
            self._transfers.end(jobs)

    def cancel(self, jobs: Sequence[JobId]) -> None:
        """`scancel`, which does not mind jobs that are gone."""
        if self._transfers is not None:
            self._transfers.forget(jobs)
        cancel_with(["scancel"], jobs)

    # submitting

    def _submitted(self, launch: Launch, workers: tuple[str, ...]) -> list[JobId]:
        # a variable of the shell would count for more than what the script says
        again = [f"--export={_exported(launch)}"] if "SBATCH_EXPORT" in os.environ else []
        try:
            answer = hand_in(["sbatch", "--parsable", *again], self._script(launch, workers), passing=_PASSING)
        except CenoteError as refused:
            raise self._with_hint(refused, launch.resources) from refused
        number = answer.strip().splitlines()[-1].partition(";")[0] if answer.strip() else ""
        if not number.isdecimal():
            raise error(BATCH_SYSTEM, f"sbatch did not answer with the number of a job but with {answer.strip()!r}")
        if len(workers) == 1:
            return [JobId(number)]
        return [JobId(f"{number}_{index}") for index in series_of(workers).numbers]

    def _with_hint(self, refused: CenoteError, wanted: Amounts) -> CenoteError:
        """With the partitions that could hold a job which was refused for its size."""
        (problem,) = refused.problems
        hint = hint_for(problem.message, wanted, self.walltime) if problem.kind is JOB_REFUSED else None
        return CenoteError(replace(problem, hint=hint or problem.hint))

    def _script(self, launch: Launch, workers: tuple[str, ...]) -> str:
        ready = launch.filled(self._blanks(launch, _worker(workers)))
        lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in self._options(launch, workers))]
        times = f"export {STARTED}=$(date +%s) {ENDS}=$SLURM_JOB_END_TIME"  # the latter from Slurm 23.02 on
        worker = [*self.prologue, *ready.set_up_lines(), ready.exec_line()]
        if self.transfer_files:
            worker = [*ready.export_lines(), *worker]
            lines += [times, *job_lines(launch.run.id, worker, patience=self.join_timeout)]
        else:
            lines += [*ready.export_lines(), times, *worker]
        return "\n".join(lines) + "\n"

    def _blanks(self, launch: Launch, worker: Word) -> Blanks:
        """With file transfer a worker logs to, and finds files in, the folder of its job."""
        usual = launch.blanks(worker)
        if not self.transfer_files:
            return usual
        folder = NodeVariable(FOLDER)
        sent: dict[Blank | Sent, Word] = {
            Sent(file.name): (folder, f"/files/{file.name}") for file in launch.files if not file.on_demand
        }
        return {**usual, LOG: (folder, f"/{OUTPUT['logs']}"), **sent}

    def _options(self, launch: Launch, workers: tuple[str, ...]) -> list[str]:
        wanted, run = launch.resources, launch.run
        home = f" home={run.location}" if run.location else ""
        gpus = f"gpu:{self.gpu_type}:{wanted.gpus}" if self.gpu_type else f"gpu:{wanted.gpus}"
        stated = {
            "job-name": _job_name(launch, workers),
            "comment": f"cenote run={run.id} pool={quote(launch.pool)}{home}",
            "output": _NOWHERE if self.transfer_files else _file(run.folder("out"), workers),
            "error": _NOWHERE if self.transfer_files else _file(run.folder("err"), workers),
            "export": _exported(launch),
            "chdir": "/" if self.transfer_files else None,
            "nodes": "1",
            "ntasks": "1",
            "cpus-per-task": str(max(1, math.ceil(wanted.cpus or 1))),
            "mem": f"{mebibytes(wanted.memory)}M" if wanted.memory else None,
            "tmp": f"{mebibytes(wanted.disk)}M" if wanted.disk and self.tmp else None,
            "gres": self.gres or (gpus if wanted.gpus else None),
            "time": _clock_time(self.walltime) if self.walltime else None,
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "nodelist": self.nodelist,
            "exclude": self.exclude,
        }
        given = {name: one_line(self.system, f"--{name}", value) for name, value in stated.items() if value is not None}
        options = [f"--{name}={_quoted(value)}" for name, value in given.items()]
        if len(workers) > 1:
            options.append(f"--array={ranges(series_of(workers).numbers)}")
        # A worker that is sent back into the queue returns under a name that was given up.
        return [*options, "--no-requeue", *(one_line(self.system, "a directive", one) for one in self.directives)]

    # looking

    def _poll(self, jobs: Sequence[JobId]) -> CommandAnswer:
        numbers = sorted({number_of(job) for job in jobs}, key=int)
        found, whole = queued(numbers)
        over = {job for job in jobs if job in found and found[job].state in OVER}
        missing = set(jobs) - found.keys() if whole else set()
        for number in sorted({number_of(job) for job in over | missing}):
            details = job_details(number)
            found.update({job: self._ended(job, details[job]) for job in (over | missing) & details.keys()})
        if self._transfers is not None:
            found.update(self._with_files(self._transfers, {job: found[job] for job in jobs if job in found}))
        return CommandAnswer(found, whole)

    def _with_files(self, transfers: FileTransfers, found: Mapping[JobId, JobStatus]) -> dict[JobId, JobStatus]:
        """See to the files of jobs that run; those that cannot get theirs."""
        transfers.forget(job for job, status in found.items() if status.state in OVER)
        awaited = transfers.awaited(job for job, status in found.items() if status.native == "RUNNING")
        if awaited:
            numbers = own_numbers(sorted({number_of(job) for job in awaited}, key=int))
            transfers.advance({job: numbers[job] for job in awaited if job in numbers})
        problems = {job: transfers.problem(job) for job in found}
        return {
            job: JobStatus(JobState.FAILED, found[job].native, problem, "died", needs_cancel=True)
            for job, problem in problems.items()
            if problem
        }

    def _ended(self, job: JobId, facts: dict[str, str]) -> JobStatus:
        status = job_status(facts.get("JobState", ""), facts.get("Reason", ""))
        if status.state is not JobState.FAILED:
            return status
        code, _, signal = facts.get("ExitCode", "").partition(":")
        if status.native == "FAILED" and code.isdecimal() and signal.isdecimal():
            status = exit_status(int(code), int(signal), status.native)
        # Without cgroups Slurm says FAILED, and only the job's errors say why.
        if status.cause == "died" and killed_for_memory(self._errors_of.get(job), _MEMORY_WORDS):
            return JobStatus(status.state, status.native, "it exceeded its memory limit", "oom")
        return status

    def _traced(self) -> list[TracedJob]:
        return own_jobs()


def _exported(launch: Launch) -> str:
    """The variables of this shell that jobs get; those of Slurm come too."""
    return ",".join(sorted(launch.inherited(os.environ))) or "NIL"


def _job_name(launch: Launch, workers: tuple[str, ...]) -> str:
    return f"cenote-{launch.run.id}-{workers[0]}"


def _worker(workers: tuple[str, ...]) -> Word:
    """The name of a worker, for the shell; the number within an array comes from Slurm."""
    if len(workers) == 1:
        return (workers[0],)
    series = series_of(workers)
    number = f"$(printf %0{series.digits}d $SLURM_ARRAY_TASK_ID)" if series.digits else "$SLURM_ARRAY_TASK_ID"
    return series.prefix, Raw(f'"{number}"')


def _file(folder: Path, workers: tuple[str, ...]) -> str:
    """The workers' files as Slurm writes them: `%a` is the number within the array, `%3a` has zeros before it."""
    if "\\" in str(folder):
        words = f"Slurm cannot write to {folder}: Slurm interprets a backslash in file names"
        raise error(JOB_REFUSED, words, hint="choose a folder for the run without a backslash in its name")
    series = series_of(workers)
    name = workers[0] if len(workers) == 1 else f"{series.prefix}%{series.digits or ''}a"
    return f"{str(folder).replace('%', '%%')}/{name}"


def _quoted(value: str) -> str:
    """As sbatch reads its lines: quotes are matched, also within a word, and `#` begins a comment."""
    if not re.search(r"[\s\"'#\\]", value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _clock_time(seconds: int) -> str:
    """Slurm counts whole minutes: 14400 → `04:00:00`."""
    minutes = max(1, math.ceil(seconds / 60))
    days, hours = divmod(minutes // 60, 24)
    return f"{days}-{hours:02}:{minutes % 60:02}:00" if days else f"{hours:02}:{minutes % 60:02}:00"
