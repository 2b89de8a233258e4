"""Read one task for the queue of a service from a YAML file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cenote.common import errors, storage
from cenote.language.checks.findings import Findings
from cenote.language.checks.validation import validated
from cenote.language.execution import AMOUNTS, Amounts
from cenote.language.schema.service import TaskFileModel
from cenote.language.yaml.source import read_yaml
from cenote.service.client.connection import Connection
from cenote.service.client.task_flows import TaskHandle


def task_of_file(connection: Connection, file: Path) -> TaskHandle:
    """The task that a file describes, not yet submitted. Raises everything that is wrong with the file, with lines."""
    parsed = read_yaml(file)
    findings = Findings(problems=list(parsed.problems))
    model = None if parsed.root is None else validated(TaskFileModel, parsed.root, "the task", findings)
    if findings.problems or model is None:
        raise errors.CenoteError(findings.problems)
    asked = model.resources
    amounts = Amounts(**{kind: getattr(asked, kind) for kind in AMOUNTS})
    task = connection.create_task(model.name, asked.resource_pool, model.instances)
    task.amounts = amounts if asked.slots is None else replace(amounts, gpus=asked.slots)
    task.command, task.constants = model.command, dict(model.constants)
    task.resources = [str(file.absolute().parent / storage.expanded(name)) for name in model.files]
    task.results, task.results_period = list(model.results), model.results_period
    task.priority, task.preemptible, task.group = model.priority, model.preemptible, model.group
    task.retries, task.timeout, task.queue_timeout = model.retries, model.timeout, model.queue_timeout
    task.after = [connection.task(name) for name in model.after]
    return task
