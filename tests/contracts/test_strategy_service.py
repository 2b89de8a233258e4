"""The strategy `service` passes the contract with a real service: its batch system is ours, and runs here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from builders.ended_services import end_service
from cenote.common.errors import BATCH_SYSTEM, JOB_REFUSED, CenoteError
from cenote.execution.launch import WORKER, Launch, Sent, SentFile
from cenote.execution.strategies.interface import JobId, JobState, JobStatus, Strategy
from cenote.language.execution import Amounts
from cenote.service.client.connection import connect
from cenote.service.client.home import ServiceHome, usual_home
from cenote.service.client.start import answering
from cenote.service.strategies.service import ServiceStrategy
from cenote.testing.contracts import StrategyContract
from cenote.testing.contracts.strategy import LOCATION, WORKERS
from cenote.testing.launches import a_launch


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceHome]:
    """Where the private service of this file is, which the first test that needs one starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("CENOTE_SERVICE", raising=False)
        found = ServiceHome(usual_home())
        yield found
        if answering(found) is None:
            return
        pid = connect(start=False).service.pid
        end_service(found, pid)


class TestService(StrategyContract):
    plugin: ClassVar[type[Strategy]] = ServiceStrategy
    cases: ClassVar[Any] = [{}]

    def test_it_says_whether_workers_start_here_or_wait_in_a_queue(self) -> None:
        assert not ServiceStrategy.starts_here
        assert ServiceStrategy().near, "all pools of a private service are here"

    def test_a_batch_job_says_whose_it_is_and_what_it_needs(self, made: Strategy, tmp_path: Path) -> None:
        (text,) = made.render(self.launch(tmp_path), ["gpu-1"])
        for words in ("r4nd0m", "gpu", str(LOCATION), "3815", str(tmp_path / "out"), str(tmp_path / "err")):
            assert words in text

    def test_what_was_submitted_when_something_came_between_is_taken_back(self, made: Strategy, tmp_path: Path) -> None:
        run = uuid.uuid4().hex
        wanted = self.launch(tmp_path, "sleep", "30", run=run)
        ours = made._connected()  # type: ignore[attr-defined]  # where something comes between
        add, asked = ours.add_task, []

        def interrupted(task: Any) -> Any:
            if asked:
                raise KeyboardInterrupt
            asked.append(task)
            return add(task)

        ours.add_task = interrupted
        with pytest.raises(KeyboardInterrupt):
            made.submit(wanted, WORKERS)
        assert asked
        wait_until_gone(run)

    def test_a_batch_system_that_does_not_answer_is_an_error(self, made: Strategy, tmp_path: Path) -> None:
        del made
        dead = ServiceStrategy(service=str(tmp_path / "no-socket"))
        with pytest.raises(CenoteError) as caught:
            dead.trace()
        assert caught.value.problems[0].kind is BATCH_SYSTEM
        with pytest.raises(CenoteError) as caught:
            dead.submit(self.launch(tmp_path), WORKERS)
        assert caught.value.problems[0].kind is BATCH_SYSTEM
        assert dead.poll([JobId("ab" * 16)]) == {}
        dead.cancel([JobId("ab" * 16)])


def wait_until_gone(run: str) -> None:
    with connect(start=False) as connection:
        for one in connection.task_records(f"cenote.run={run}"):
            connection.task(one.id).wait(timeout=60)
    assert ServiceStrategy().trace(run) == []


def ended(made: ServiceStrategy, job: JobId) -> JobStatus:
    with connect(start=False) as connection:
        connection.task(job).wait(timeout=60)
    return made.poll([job])[job]


def a_lease(folder: Path, *command: Any, **given: Any) -> Launch:
    made = a_launch(*command, pool="small", folder=folder, resources=Amounts(cpus=1), **given)
    made.run.make_folders()
    return made


def test_what_a_worker_printed_and_its_end_come_home(tmp_path: Path) -> None:
    made = ServiceStrategy()
    (job,) = made.submit(a_lease(tmp_path, "sh", "-c", "echo one $0; echo two >&2; exit 3", WORKER), ["small-1"])
    status = ended(made, job)
    assert (status.state, status.cause, status.reason) == (JobState.FAILED, "died", "it ended with exit code 3")
    assert (tmp_path / "out" / "small-1").read_text() == "one small-1\n"
    assert (tmp_path / "err" / "small-1").read_text() == "two\n"


def test_files_are_sent_along_privately_and_variables_are_set(tmp_path: Path) -> None:
    secret = tmp_path / "secret.pem"
    secret.write_text("s3cret\n")
    command = ("sh", "-c", 'cat "$0"; stat -c %a "$0"; echo "$GREETING"', Sent(secret.name))
    launch = a_lease(tmp_path, *command, files=(SentFile(secret),), variables={"GREETING": "it's a $day"})
    made = ServiceStrategy()
    (job,) = made.submit(launch, ["small-1"])
    assert ended(made, job).state is JobState.ENDED
    assert (tmp_path / "out" / "small-1").read_text() == "s3cret\n600\nit's a $day\n"
    log = ServiceHome(usual_home()).path / "service.sqlite"
    assert b"s3cret" not in log.read_bytes()


def test_what_no_pool_can_hold_is_refused_at_once(tmp_path: Path) -> None:
    with connect() as connection:
        connection.create_pool("one cpu", "local", 1).submit()
    launch = a_launch("true", pool="one_cpu", folder=tmp_path, resources=Amounts(cpus=64))
    with pytest.raises(CenoteError) as caught:
        ServiceStrategy().submit(launch, ["one_cpu-1"])
    assert caught.value.problems[0].kind is JOB_REFUSED
    assert "a slot of pool 'one_cpu' has 1 CPU; an instance asks for 64 CPUs" in str(caught.value)


def test_a_pool_that_was_made_for_smaller_workers_is_not_in_the_way(tmp_path: Path) -> None:
    made, large = ServiceStrategy(), Amounts(cpus=2, memory=10**9)
    jobs = made.submit(a_lease(tmp_path, "true"), ["small-1"])
    jobs += made.submit(a_launch("true", pool="small", folder=tmp_path, resources=large), ["small-2"])
    jobs += made.submit(a_launch("true", pool="small", folder=tmp_path, resources=large), ["small-3"])
    with connect(start=False) as connection:
        assert [connection.task(job).record.pool for job in jobs] == ["small", "small-2", "small-2"]


def test_a_lease_that_waits_says_why(tmp_path: Path) -> None:
    made = ServiceStrategy(pool="busy")
    with connect() as connection:
        connection.create_pool("busy", "local", 1).submit()
    first, second = made.submit(a_lease(tmp_path, "sleep", "60"), ["small-1", "small-2"])
    try:
        assert made.poll([second])[second].state is JobState.PENDING
        assert "busy" in made.poll([second])[second].reason or "next" in made.poll([second])[second].reason
    finally:
        made.cancel([first, second])
    wait_until_gone("r1")
