"""Read one task for the queue of a service from a YAML file."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import msgspec

from cenote.common import errors, storage
from cenote.language.checks.findings import Findings
from cenote.language.checks.validation import validated
from cenote.language.execution import AMOUNTS, Amounts
from cenote.language.schema.service import TaskFileModel, TaskFileTerms
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
    task = connection.create_task(model.name, asked.resource_pool)
    terms = {one.name: getattr(model, one.name) for one in fields(TaskFileTerms)}
    task.terms = msgspec.structs.replace(task.terms, **terms)
    task.amounts = amounts if asked.slots is None else replace(amounts, gpus=asked.slots)
    task.resources = [str(file.absolute().parent / storage.expanded(name)) for name in model.files]
    task.results = list(model.results)
    task.after = [connection.task(name) for name in model.after]
    return task
