"""The HTCondor strategy: workers are jobs, many of them one cluster of jobs.

Seen with HTCondor 23.9; it needs `condor_submit`, `condor_q`, `condor_history` and `condor_rm`.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import PrivateAttr

from cenote.common.errors import BATCH_SYSTEM, JOB_REFUSED, error
from cenote.common.text import can_name_variables, plain_name
from cenote.engine.messages import JobState
from cenote.execution.launch import (
    FETCH,
    LOG,
    WORKER,
    Blank,
    Blanks,
    Launch,
    NodeVariable,
    Raw,
    Sent,
    Word,
    plain_text,
    words,
)
from cenote.execution.strategies.htcondor.queue import (
    ClassAd,
    analysis_of,
    jobs_in_history,
    jobs_in_queue,
    own_jobs,
    some_slot_holds,
    status_of_ended,
    status_of_queued,
)
from cenote.execution.strategies.htcondor.values import REPLACED, literal, plain, quoted_words, remapped
from cenote.execution.strategies.interface import JobId, JobStatus, TracedJob
from cenote.execution.strategies.support.batch import (
    BatchStrategy,
    CommandAnswer,
    cancel_with,
    hand_in,
    mebibytes,
    one_line,
    try_to,
)
from cenote.execution.worker.process.lifetime import Lifetime
from cenote.execution.worker.process.scratch import filled_in
from cenote.language.execution import Amounts
from cenote.language.plugins.settings import Seconds

# Say how files reach jobs of HTCondor that see no files of this machine, and how they come back.


LargeFiles = Literal["fetched", "sent"]
"""How a job gets files that nodes may have already: by asking for them, or with all others."""
_PLACES = (
    *('"${_CONDOR_BIN:-/usr/bin}"/../libexec/condor', '"$(condor_config_val LIBEXEC 2>/dev/null || echo /usr)"'),
    *("/usr/libexec/condor", "/usr/lib/condor/libexec"),
)
"""Of programs that are for jobs only: no PATH has them. The variable is set by HTCondor from version 9 on."""
CHIRP = f"PATH=$PATH:{':'.join(_PLACES)} condor_chirp fetch"
"""Copies a file of this machine from within a job, by the connection that the job has with it."""


def with_ways(launch: Launch, large: LargeFiles) -> Launch:
    """A launch in which large files are fetched by jobs that lack them, or are sent to each of them."""
    if large == "sent":
        return replace(launch, files=tuple(replace(file, on_demand=False) for file in launch.files))
    return launch.with_variables(**{FETCH: CHIRP}) if any(file.on_demand for file in launch.files) else launch


def blanks(launch: Launch, worker: Word) -> Blanks:
    """A worker logs to, and finds files in, the folder that HTCondor gives it."""
    folder = NodeVariable("_CONDOR_SCRATCH_DIR")
    files: dict[Blank | Sent, Word] = {
        Sent(file.name): (str(file.source),) if file.on_demand else (folder, f"/{file.name}") for file in launch.files
    }
    return {WORKER: worker, LOG: worker, **files}


def transfers(launch: Launch, name: str) -> dict[str, str]:
    """Lines of the submit description."""
    log = f"{launch.run.folder('logs')}/"
    sent = [str(file.source) for file in launch.files if not file.on_demand]
    for path in (log, *sent):
        if re.search(r'[,"]', path):
            words = f"HTCondor cannot transfer {path}: a comma or a quote in a name ends it"
            raise error(JOB_REFUSED, words, hint="choose a folder for the run without them")
    return {
        "should_transfer_files": "YES",
        # Not ON_EXIT_OR_EVICT: what an evicted job leaves waits for its return, and ours never do.
        "when_to_transfer_output": "ON_EXIT",
        "transfer_input_files": ", ".join([plain(log) + name, *map(plain, sent)]),
        "transfer_output_files": name,
        "transfer_output_remaps": remapped(name, log),
    }


_PASSING = (
    "failed to connect",
    "can't find address",
    "locate(credd) failed",
    "timed out",
    "communication",
    "failed to fetch",
    "unreachable",
)
_TAKEN = re.compile(r"^\s*(\d+)\.(\d+) - (\d+)\.(\d+)\s*$", re.MULTILINE)
_ANALYSE_SECONDS = 60.0
"""Between two analyses of why the same jobs wait: they are expensive for the batch system."""
_NEVER_TWICE = "(MY.NumJobStarts =?= undefined || MY.NumJobStarts == 0)"
"""A worker that lost its machine must not return: its name was given up."""
_OVERDUE = "JobStatus == 2 && time() - JobCurrentStartDate"
_USUAL_MEMORY = 2_000_000_000
"""Bytes for each CPU of a worker whose pool names no memory: HTCondor itself would ask for next to nothing."""
_TO_COME_HOME = 10.0
"""Seconds in which a worker that was let go ends and its output is brought home; removing it would lose that."""


class HTCondor(BatchStrategy):
    """Starts workers as HTCondor jobs; without `transfer_files` the machines must see the run's folder.

    A request that no machine of the pool could ever meet is refused at once, with the conditions that none meets.
    A pool that names no `memory` asks for 2 GB for each CPU.
    """

    example: ClassVar[str] = """
    execution:
      backend: dask
      strategy: htcondor
      pools:
        default: {elastic: {max: 20}, config: {job_flavour: longlunch}}
    """

    system: ClassVar[str] = "HTCondor"
    set_up_nowhere: ClassVar[tuple[str, ...]] = ("Neither the environment variable CONDOR_CONFIG",)

    job_flavour: str | None = None
    """The queue, where a site has job flavours: `longlunch`. Without a `walltime` it says how long workers live."""
    job_flavours: Mapping[str, Seconds] = {
        "espresso": 1200,
        "microcentury": 3600,
        "longlunch": 7200,
        "workday": 28800,
        "tomorrow": 86400,
        "testmatch": 259200,
        "nextweek": 604800,
    }
    """How long jobs of each flavour may run: `{short: 30m, long: 8h}`."""
    requirements: str | None = None
    """A ClassAd expression that a machine must meet."""
    accounting_group: str | None = None
    """Who is charged."""
    classads: Mapping[str, str | bool | int | float] = {}
    """Further attributes of the jobs: `{ProjectName: hep}`; text is written in quotes."""
    directives: tuple[str, ...] = ()
    """Further lines of the submit description: `[rank = Memory]`."""
    x509userproxy: str | None = None
    """File with a proxy that jobs carry by HTCondor's own means, so that sites see its VO: `$X509_USER_PROXY`. Tasks
    get the credential `x509` without it."""
    oauth_services: tuple[str, ...] = ()
    """Services whose tokens HTCondor itself gets, delivers and refreshes: `[scitokens]`. Tasks find the first one's
    by `BEARER_TOKEN_FILE`. For tokens of your own, name the credential `scitokens` instead."""
    transfer_files: bool = False
    """Whether machines do not see the run's folder: what a worker writes and logs comes back by HTCondor's own file
    transfer when it ends, and is lost if it is removed or evicted. The data must still be there, and this Python too
    unless the environment is a packed one."""
    archives: LargeFiles = "fetched"
    """How archives of packed environments get to machines that do not see them, with `transfer_files`: `fetched` by
    those that do not have them yet, with `condor_chirp`; `sent` to every job as all other files, for sites without
    chirp, or whose jobs run in containers that lack it."""
    machines_come_later: bool = False
    """Whether a request that no machine meets now waits instead of being refused: for pools whose machines are started
    when jobs ask for them (glideins, clouds)."""

    stream_output: bool = False
    """Whether transferred output comes while a worker runs, and not only at its end; many sites do not allow it."""

    _analysed: dict[str, tuple[float, str]] = PrivateAttr(default_factory=dict)
    """Cluster of jobs → when it was analysed, and why its jobs wait."""
    _possible: set[Amounts] = PrivateAttr(default_factory=set)
    """Requests that were looked at, and that some machine could meet."""

    @property
    def lifetime(self) -> Lifetime | None:
        """The walltime, or the time that jobs of this flavour have."""
        limit = self.walltime or self.job_flavours.get(self.job_flavour or "")
        return Lifetime(limit) if limit else None

    def render(self, launch: Launch, workers: Sequence[str]) -> list[str]:
        """The submit description."""
        return [self._description(launch, workers)]

    def submit(self, launch: Launch, workers: Sequence[str]) -> list[JobId]:
        """Hand the description to condor_submit. What was taken and then refused is taken back."""
        jobs: list[JobId] = []
        try:
            jobs += self._submitted(launch, workers)
            self._refuse_the_impossible(launch.resources, jobs[-1])
        except BaseException:  # Ctrl-C too: nobody would know of them
            self.cancel(jobs)
            taken_after_all = f'CenoteRun == "{launch.run.id}" && CenoteFirst == "{workers[0]}"'
            try_to(["condor_rm", "-constraint", taken_after_all])
            raise
        return jobs

    @property
    def seconds_to_end(self) -> float:
        """Files are transferred when a job ends by itself, and not when it is removed."""
        return _TO_COME_HOME if self.transfer_files else 0.0

    def cancel(self, jobs: Sequence[JobId]) -> None:
        """`condor_rm`, which complains about jobs that are gone, and is not listened to."""
        cancel_with(["condor_rm"], jobs)

    # submitting

    def _submitted(self, launch: Launch, workers: Sequence[str]) -> list[JobId]:
        if self.transfer_files:
            for worker in workers:  # a file that is to come back must be there, or HTCondor holds the job
                (launch.run.folder("logs") / worker).touch()
        answer = hand_in(["condor_submit", "-terse", "-"], self._description(launch, workers), passing=_PASSING)
        jobs = []
        for cluster, first, _, last in _TAKEN.findall(answer):
            jobs += [JobId(f"{cluster}.{process}") for process in range(int(first), int(last) + 1)]
        if len(jobs) != len(workers):
            self.cancel(jobs)
            raise error(BATCH_SYSTEM, f"condor_submit did not answer with {len(workers)} jobs but with {answer!r}")
        return jobs

    def _refuse_the_impossible(self, wanted: Amounts, job: JobId) -> None:
        """HTCondor takes every job, and lets those wait for ever that no machine can hold: ask, once for each kind."""
        if self.machines_come_later or wanted in self._possible:
            return
        analysis = analysis_of(job)
        if analysis.hopeless and not (analysis.about_amounts and some_slot_holds(wanted)):
            hint = "where machines start on demand, set `config: {machines_come_later: true}`"
            raise error(JOB_REFUSED, f"condor_q -better-analyze: {analysis.in_words}", hint=hint)
        self._possible.add(wanted)

    def _description(self, launch: Launch, workers: Sequence[str]) -> str:
        if self.transfer_files:
            launch = with_ways(launch, self.archives)
        name = workers[0] if len(workers) == 1 else "$(worker)"
        (executable, *arguments), variables = self._start(launch, name)
        wanted, run = launch.resources, launch.run
        cpus = max(1, math.ceil(wanted.cpus or 1))
        files = {stream: f"{plain(str(run.folder(stream)))}/" for stream in ("out", "err", "logs")}
        lines = {
            "universe": "vanilla",
            "batch_name": plain(f"cenote-{run.id}-{plain_name(launch.pool)}"),
            "executable": plain(plain_text(executable)),
            "transfer_executable": "false",
            "arguments": quoted_words(arguments),
            "environment": quoted_words(variables),
            "x509userproxy": plain(filled_in(self.x509userproxy)) if self.x509userproxy else None,
            "use_oauth_services": ", ".join(self.oauth_services) or None,
            "getenv": ", ".join(filter(can_name_variables, launch.inheritable)) or "false",
            "output": files["out"] + name,
            "error": files["err"] + name,
            "log": files["logs"] + f"{plain_name(launch.pool)}.htcondor",
            **self._transfers(launch, name),
            "request_cpus": str(cpus),
            "request_memory": str(mebibytes(wanted.memory or _USUAL_MEMORY * cpus)),
            "request_disk": str(-(-wanted.disk // 1024)) if wanted.disk else None,
            "request_gpus": str(wanted.gpus) if wanted.gpus else None,
            "requirements": f"({self.requirements}) && {_NEVER_TWICE}" if self.requirements else _NEVER_TWICE,
            "accounting_group": self.accounting_group,
            "notification": "never",
            "periodic_remove": f"{_OVERDUE} > {self.walltime}" if self.walltime is not None else None,
            **{f"+{key}": literal(value) for key, value in self._attributes(launch, workers[0]).items()},
            "+CenoteWorker": f'"{name}"',
        }
        written = [f"{key} = {_value(key, value)}" for key, value in lines.items() if value is not None]
        # a line for each worker: names have spaces
        queue = ["queue"] if len(workers) == 1 else ["queue worker from (", *workers, ")"]
        return "\n".join([*written, *self.directives, *queue, ""])

    def _start(self, launch: Launch, name: str) -> tuple[tuple[Word, ...], list[Word]]:
        """The command, and variables as `NAME=value`. A shell comes first where one is needed: the name of the worker
        is its `$0`, for names that HTCondor fills in are no part of its text."""
        if self.oauth_services:
            token = (NodeVariable("_CONDOR_CREDS"), f"/{self.oauth_services[0]}.use")
            launch = launch.with_variables(BEARER_TOKEN_FILE=token)
        ready = launch.filled(self._blanks(launch, (Raw(name),)))
        if not ready.needs_shell:
            return ready.command, [(f"{key}=", *value) for key, value in ready.variables.items()]
        ready = launch.filled(self._blanks(launch, (Raw('"$0"'),)))
        # eval: an argument has one line, and a comment or an `&` at the end of a set-up line must stay its own
        setup = [f"eval {shlex.quote(line)}" for line in ready.set_up_lines()]
        script = "; ".join([*ready.export_lines(), *setup, ready.exec_line()])
        return words("/bin/sh", "-c", script, Raw(name)), []

    def _blanks(self, launch: Launch, worker: Word) -> Blanks:
        return blanks(launch, worker) if self.transfer_files else launch.blanks(worker)

    def _transfers(self, launch: Launch, name: str) -> dict[str, str]:
        if not self.transfer_files:
            return {"should_transfer_files": "NO"}
        streamed = str(self.stream_output).lower()
        return {**transfers(launch, name), "stream_output": streamed, "stream_error": streamed}

    def _attributes(self, launch: Launch, first: str) -> dict[str, str | bool | int | float]:
        ours = {
            "CenoteRun": launch.run.id,
            "CenotePool": launch.pool,
            "CenoteFirst": first,
            "CenoteHome": str(launch.run.location) if launch.run.location else None,
            "JobFlavour": self.job_flavour,
            "MaxRuntime": self.walltime,
            "WantIOProxy": True if FETCH in launch.variables else None,
        }
        return {name: value for name, value in ours.items() if value is not None} | dict(self.classads)

    # looking

    def _poll(self, jobs: Sequence[JobId]) -> CommandAnswer:
        queued = jobs_in_queue(sorted({job.partition(".")[0] for job in jobs}, key=int))
        gone = [job for job in jobs if job not in queued]
        ended = jobs_in_history(gone) if gone else {}
        found = {job: self._queued(job, queued[job]) for job in jobs if job in queued}
        return CommandAnswer(found | {job: status_of_ended(ended[job]) for job in gone if job in ended})

    def _queued(self, job: JobId, ad: ClassAd) -> JobStatus:
        status = status_of_queued(ad)
        return replace(status, reason=self._why_idle(job, ad)) if status.state is JobState.PENDING else status

    def _traced(self) -> list[TracedJob]:
        return own_jobs()

    def _why_idle(self, job: JobId, ad: ClassAd) -> str:
        """What the matchmaker said, and, when it found nothing, the conditions that no machine meets."""
        said = str(ad.get("LastRejMatchReason", "")).strip()
        cluster = job.partition(".")[0]
        at, known = self._analysed.get(cluster, (-math.inf, ""))
        if said and self._clock() - at > _ANALYSE_SECONDS:
            known = " and ".join(analysis_of(job).unmet)
            self._analysed[cluster] = (self._clock(), known)
        return f"{said}: no machine has {known}" if said and known else said


def _value(key: str, value: str) -> str:
    """A value of the description, if it can stay what it is."""
    if REPLACED.search(value):
        raise error(
            JOB_REFUSED,
            f"HTCondor replaces '$$(' and '$(DOLLAR)' wherever they stand, and `{key}` has one of them",
            hint="choose a folder for the run, names and settings without them",
        )
    return one_line(HTCondor.system, f"`{key}`", value)
