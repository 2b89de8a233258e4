"""Write a worker down as a task of a service, and read one again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime

from cenote.client.constants import RESERVED, why_no_constant
from cenote.client.python_call import PythonCall
from cenote.client.records import NewTask, QueuedTaskRecord
from cenote.launch import LOG, PERSON, WORKER, Blank, Blanks, Launch, NodeVariable, RunLocation, Sent, Word, plain_text
from cenote.strategies.interface import JobId, TracedJob
from cenote.text import format_amount

RUN, POOL, HOME = "cenote.run", "cenote.pool", "cenote.home"
WORKER_LABEL = "cenote.worker"
"""Labels of a lease."""
USUAL_SOFTWARE = ("cenote.operations.support.custom", "cenote.worker.process.built_in_software")
"""What workers of most runs import, and need not where it is there: one warm process serves all runs."""
_FOLDER = "LEASE_FOLDER"
"""Variable of the shell: where the files are that were sent along."""


def lease(launch: Launch, worker: str, *, python: str) -> NewTask:
    """A task that is this worker, without a pool and without terms. `python` is the interpreter of agents: a launch
    that asks for the same one is forked from a process that has its imports."""
    given = {name: value for name, value in launch.inherited(os.environ).items() if _travels(name, value)}
    forked = _forked(launch, worker, python)
    constants = _plain(launch) if forked else {}
    return NewTask(
        name=lease_name(launch, worker),
        command="" if forked else script(launch, worker),
        python=forked,
        constants={**given, **constants},
        amounts=launch.resources,
        resources=tuple(str(file.source) for file in launch.files if not file.on_demand),
        labels=labels(launch, worker),
        requeue=False,  # a worker that comes back would have a name that was given up
    )


def _travels(name: str, value: str) -> bool:
    """Whether a variable of this shell can be a constant: whose account it is, the agent knows."""
    return name not in PERSON and not why_no_constant(name, value)


def lease_name(launch: Launch, worker: str) -> str:
    """For people."""
    home = launch.run.location
    return f"run {home.folder.name if home else launch.run.id}, worker {worker}"


def labels(launch: Launch, worker: str) -> dict[str, str]:
    """By which it is found again."""
    home = {HOME: str(launch.run.location)} if launch.run.location else {}
    return {RUN: launch.run.id, POOL: launch.pool, WORKER_LABEL: worker, **home}


def script(launch: Launch, worker: str) -> str:
    """The command for a shell, in the folder of the instance."""
    ready = launch.filled(_blanks(launch, worker, (NodeVariable(_FOLDER), "/")))
    return "\n".join([f"{_FOLDER}=$PWD", *ready.export_lines(), *ready.set_up_lines(), ready.exec_line()])


def description(launch: Launch, worker: str) -> str:
    """All of it, for people to read."""
    wanted = launch.resources
    amounts = [
        format_amount(wanted.cpus or 1, "cpus"),
        f"{-(-wanted.memory // 2**20)} MiB" if wanted.memory else "",
        format_amount(wanted.gpus, "gpus") if wanted.gpus else "",
    ]
    facts = {
        "task": lease_name(launch, worker),
        "needs": ", ".join(filter(None, amounts)),
        **labels(launch, worker),
        "stdout": str(launch.run.folder("out") / worker),
        "stderr": str(launch.run.folder("err") / worker),
        **{f"file {file.name}": str(file.source) for file in launch.files},
    }
    return "\n".join([*(f"# {name}: {value}" for name, value in facts.items()), script(launch, worker), ""])


def traced(record: QueuedTaskRecord) -> TracedJob:
    """A lease that is there."""
    found = record.labels
    return TracedJob(
        job=JobId(record.id),
        run=found[RUN],
        pool=found.get(POOL, ""),
        worker=found.get(WORKER_LABEL, ""),
        native=str(record.state),
        since=datetime.fromisoformat(record.submitted).timestamp() if record.submitted else None,
        home=RunLocation.read(found.get(HOME, "")),
    )


def _forked(launch: Launch, worker: str, python: str) -> PythonCall | None:
    """What the agent's own Python runs; None where a shell or another Python is needed."""
    ready = launch.filled(_blanks(launch, worker, ()))
    words = ready.python_words
    ours = any(name.startswith(RESERVED) for name in ready.variables)
    if not words or ready.needs_shell or ours or _text(ready.interpreter) != [python]:
        return None
    module, *arguments = _text(words)
    warm = (*USUAL_SOFTWARE, launch.module) if launch.module else ()
    return PythonCall(module=module, arguments=tuple(arguments), warm=warm)


def _plain(launch: Launch) -> dict[str, str]:
    return {name: plain_text(value) for name, value in launch.variables.items()}


def _text(words: Sequence[Word]) -> list[str]:
    return [plain_text(word) if all(isinstance(part, str) for part in word) else "" for word in words]


def _blanks(launch: Launch, worker: str, folder: Word) -> Blanks:
    """Files are in the folder of the instance; the log is the run's own file, where the node sees it."""
    sent: dict[Blank | Sent, Word] = {
        Sent(file.name): (str(file.source),) if file.on_demand else (*folder, file.name) for file in launch.files
    }
    return {**launch.blanks((worker,)), WORKER: (worker,), LOG: (f"{launch.run.folder('logs')}/", worker), **sent}
