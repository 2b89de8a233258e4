"""Long-lived pools on real batch systems: programs with only the connection and the profile changed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cenote.execution.start_failures import StartFailure
from cenote.service.client.connection import Connection, connect
from cenote.service.client.definitions import InstanceState
from cenote.service.client.home import ServiceHome
from cenote.service.client.start import answering, stop_service
from cenote.service.client.task_flows import TaskHandle

from .conftest import BatchSystem
from .processes import until
from .slurm_cluster import SlurmCluster

PROFILES = """
    execution:
      config: {{poll_every: 1s}}
      pools:
        elastic: {{use: nodes, elastic: {{min: 0, max: 2, idle_time: 1s, resize_period: 1s}}}}
    pool_profiles:
      nodes: {{strategy: {strategy}, config: {{walltime: 10m}}}}
      short: {{strategy: {strategy}, config: {{walltime: 1m}}}}
      sent: {{strategy: {strategy}, config: {{walltime: 10m, transfer_files: true}}}}
      shared: {{strategy: {strategy}, config: {{walltime: 10m}}, environment: {{type: shared, prefix: {prefix}}}}}
      unfit: {{strategy: {strategy}, config: {{walltime: 10m}}, environment: {{type: shared, prefix: {unfit}}}}}
"""
UNFIT = """#!/bin/sh
case "$*" in *cenote.execution.worker.process.start*) exit {code};; esac
exec {python} "$@"
"""
FIRST = """
import cenote
# Connect
conn = cenote.connect()
# Create a pool with 4 instances
pool = conn.create_pool("Hello world - pool", "nodes", 4)
# Submit the pool and wait for the nodes to start
pool.submit()
# Create a Hello World task of instances associated
# with the previously submitted pool
task = conn.create_task('helloworld', pool, 4)
# Print Hello World from each instance
task.constants['DOCKER_CMD'] = 'echo Hello World from node ${INSTANCE_ID}!'
# Run the task
task.run()
# Close the pool
pool.close()
"""
SECOND = '''
import cenote
# Connect
conn = cenote.connect()
# Create a pool with 1 instance
elastic_pool = conn.create_pool("Hello world - elastic pool", "nodes", 1)
"""
Setup the elasticity of the pool
Ranging from 0 to 5 instances
Updated every 90 seconds
"""
elastic_pool.setup_elastic(
minimum_total_slots=0,
maximum_total_slots=5,
resize_period=90
)
# Submit the pool
elastic_pool.submit()
"""
Create a Hello World task associated
with the previously submitted pool
This task will be running only on 1 instance
"""
task_1 = conn.create_task('helloworld - 1', elastic_pool, 1)
# Print Hello World
task_1.constants['DOCKER_CMD'] = 'echo Hello World from node ${INSTANCE_ID}!'
# Run the task
task_1.run()
"""
Create a second Hello World task
with 5 instances this time
"""
task_2 = conn.create_task('helloworld - 5', elastic_pool, 5)
# Print Hello World from each instance
task_2.constants['DOCKER_CMD'] = 'echo Hello World from node ${INSTANCE_ID}!'
# Run the task
task_2.run()
# Close the pool
elastic_pool.close()
'''
LIMIT = 180.0
"""Seconds in which a task on a busy machine is over."""


@dataclass
class ServedSystem:
    """A service whose pools are on a batch system."""

    system: BatchSystem
    connection: Connection
    home: ServiceHome

    def jobs(self, pool: str) -> list[str]:
        """Its jobs that run."""
        if isinstance(self.system, SlurmCluster):
            return [job for job, _ in self.system.jobs(pool)]
        return list(self.system.jobs(pool, status=2))

    def cancel(self, job: str) -> None:
        """As an administrator would."""
        self.system.ask("scancel" if isinstance(self.system, SlurmCluster) else "condor_rm", job)

    def task(self, pool: str, command: str, instances: int = 1) -> TaskHandle:
        made = self.connection.create_task("task", pool, instances)
        made.command = command
        return made


@pytest.fixture
def served(system: BatchSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedSystem]:
    """`cenote serve FILE` with profiles for the batch system."""
    file, home = tmp_path / "pools.yaml", ServiceHome(tmp_path / "home")
    unfit = tmp_path / "prefix" / "bin" / "python"
    unfit.parent.mkdir(parents=True)
    unfit.write_text(UNFIT.format(code=StartFailure.OTHER_SOFTWARE.value.code, python=sys.executable))
    unfit.chmod(0o755)
    text = PROFILES.format(strategy=system.strategy, prefix=sys.prefix, unfit=tmp_path / "prefix")
    file.write_text(textwrap.dedent(text))
    command = [sys.executable, "-m", "cenote", "serve", str(file), "--home", str(home.path), "--host", "127.0.0.1"]
    with (tmp_path / "service.txt").open("wb") as printed:
        service = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT, cwd=tmp_path)
    try:
        until(lambda: answering(home) is not None or service.poll() is not None, "the service to answer")
        assert service.poll() is None, (tmp_path / "service.txt").read_text()
        monkeypatch.setenv("CENOTE_SERVICE", str(home.path))
        with connect() as connection:
            yield ServedSystem(system, connection, home)
        stop_service(home)
        assert service.wait(timeout=60) == 0
    finally:
        service.kill()
        service.wait()


@pytest.mark.usefixtures("served")
def test_both_programs_of_the_sdk_run_with_only_the_connection_and_the_profile_changed() -> None:
    for program, instances in ((FIRST, [4]), (SECOND, [1, 5])):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT, check=False, env=os.environ
        )
        assert done.returncode == 0, done.stderr
        expected = [f"Hello World from node {number}!" for count in instances for number in range(count)]
        assert sorted(done.stdout.splitlines()) == sorted(expected), done.stderr


def test_an_elastic_pool_goes_to_nothing_and_comes_back(served: ServedSystem) -> None:
    pool = served.connection.pool("elastic")
    assert pool.record.workers == 0
    for _ in range(2):
        assert served.task(pool.id, "true", 2).wait(LIMIT)
        until(lambda: pool.record.workers == 0 and not served.jobs(pool.id), "the pool to have no workers")


def test_an_instance_whose_job_is_cancelled_is_begun_again_elsewhere_and_says_so(
    served: ServedSystem, tmp_path: Path
) -> None:
    pool = served.connection.create_pool("pool", "nodes", 1).submit()
    mark = tmp_path / "mark"
    task = served.task(pool.id, f"[ -e {mark} ] || {{ touch {mark}; exec sleep 600; }}; echo again").submit()
    until(mark.exists, "the instance to run")
    (job,) = served.jobs(pool.id)
    first = task.instances[0].worker
    served.cancel(job)
    assert task.wait(LIMIT)
    (instance,) = task.instances
    assert (instance.state, instance.attempts, instance.exit_code) == (InstanceState.SUCCEEDED, 2, 0)
    assert instance.worker != first
    assert f"its worker {first}" in instance.message
    assert task.stdout() == "again\n"


def test_an_instance_that_outlives_its_worker_is_begun_again_before_the_walltime_is_over(
    served: ServedSystem, tmp_path: Path
) -> None:
    pool = served.connection.create_pool("pool", "short", 1).submit()
    mark = tmp_path / "mark"
    task = served.task(pool.id, f"[ -e {mark} ] || {{ touch {mark}; exec sleep 600; }}; echo again").submit()
    assert task.wait(LIMIT)
    (instance,) = task.instances
    assert (instance.attempts, task.stdout()) == (2, "again\n")
    assert instance.message.endswith("had to go: its walltime is nearly over")


def test_workers_run_the_environment_of_their_profile_and_are_turned_away_where_it_does_not_fit(
    served: ServedSystem,
) -> None:
    bad = served.connection.create_pool("bad", "unfit", 1).submit()
    good = served.connection.create_pool("good", "shared", 1).submit()
    task = served.task(good.id, 'echo "$VIRTUAL_ENV"; command -v python')
    assert task.wait(LIMIT), (task.why, good.record.reason)
    assert task.stdout().splitlines()[-1] == str(Path(sys.prefix) / "bin" / "python")
    until(lambda: bad.record.state == "Failure", "the pool to fail")
    assert StartFailure.OTHER_SOFTWARE.value.words in bad.record.reason


def test_files_go_to_nodes_and_results_come_back_where_files_are_transferred(
    served: ServedSystem, tmp_path: Path
) -> None:
    (tmp_path / "numbers.txt").write_text("1 2 3\n")
    pool = served.connection.create_pool("pool", "sent", 1).submit()
    task = served.task(pool.id, "tr ' ' '+' < numbers.txt > sum.txt")
    task.resources, task.results = [str(tmp_path / "numbers.txt")], ["sum.txt"]
    assert task.wait(LIMIT), (task.why, pool.record.reason)
    (found,) = task.download_results(tmp_path / "results")
    assert found.read_text() == "1+2+3\n"
