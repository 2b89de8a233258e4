"""Programs and files ask for a task in the same words, and all that they say reaches the service."""

from dataclasses import fields
from pathlib import Path

import msgspec

from cenote.language.execution import Amounts
from cenote.language.schema.service import TaskFileModel
from cenote.service.client.connection import Connection
from cenote.service.client.line import Line
from cenote.service.client.records import NewTask
from cenote.service.client.task_file import task_of_file
from cenote.service.client.task_flows import TaskHandle

FILE = """
name: fit
command: ./fit
instances: 3
resources: {resource_pool: gpu, cpus: 2, memory: 4GB, slots: 1}
constants: {MASS: 125}
results: "*.root"
results_period: 1m
priority: 7
preemptible: true
retries: 2
timeout: 1h
queue_timeout: 2h
group: atlas
"""
TASK = NewTask(
    name="fit",
    command="./fit",
    instances=3,
    pool="gpu",
    amounts=Amounts(cpus=2, memory=4_000_000_000, gpus=1),
    constants={"MASS": "125"},
    results=("*.root",),
    results_period=60,
    priority=7,
    preemptible=True,
    retries=2,
    timeout=3600,
    queue_timeout=7200,
    group="atlas",
)


def asked(task: TaskHandle) -> NewTask:
    """What a service is asked for when it is submitted."""
    return msgspec.json.decode(next(task.submit_flow()).body, type=NewTask)


def test_a_program_asks_for_all_that_it_sets(tmp_path: Path) -> None:
    task = Connection(Line(tmp_path / "socket")).create_task("fit", "gpu", 3)
    task.command, task.group, task.constants["MASS"] = "./fit", "atlas", 125  # type: ignore[assignment]  # as people do
    task.amounts = {"cpus": 2, "memory": "4GB", "gpus": 1}
    task.results.append("*.root")
    task.results_period, task.timeout, task.queue_timeout = 60, 3600, 7200
    task.priority, task.preemptible, task.retries = 7, True, 2
    assert asked(task) == TASK


def test_a_file_asks_for_the_same(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(FILE)
    assert asked(task_of_file(Connection(Line(tmp_path / "socket")), tmp_path / "task.yaml")) == TASK
    left_out = {one.name for one in fields(TaskFileModel) if f"{one.name}:" not in FILE}
    assert left_out == {"files", "after"}, "these need a service"


def test_tasks_of_a_program_do_not_share_what_they_hold(tmp_path: Path) -> None:
    connection = Connection(Line(tmp_path / "socket"))
    one, other = connection.create_task("one"), connection.create_task("other")
    one.constants["MASS"] = "125"
    one.results.append("*.root")
    one.priority = 7
    assert (other.constants, other.results, other.priority) == ({}, [], 0)
    assert (one.name, one.instancecount, one.constants) == ("one", 1, {"MASS": "125"})
