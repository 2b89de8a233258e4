"""Programs that use long-lived pools, as their authors write them."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections import Counter
from pathlib import Path

import pytest

from cenote.common.errors import CenoteError
from cenote.language.execution import Elastic
from cenote.service.client.connection import Connection, connect
from cenote.service.client.definitions import InstanceState
from cenote.service.client.home import ServiceHome
from cenote.service.client.records import LivePoolRecord, NewPool, QueuedTaskRecord
from cenote.service.client.start import stop_service
from cenote.service.client.task_flows import TaskHandle, changed_task

HELLO = "echo Hello World from node ${INSTANCE_ID}!"


def hellos(count: int) -> list[str]:
    return sorted(f"Hello World from node {number}!" for number in range(count))


def test_hello_world_on_a_pool_of_four(connection: Connection, capsys: pytest.CaptureFixture[str]) -> None:
    pool = connection.create_pool("Hello world - pool", "local", 4)
    pool.submit()
    task = connection.create_task("helloworld", pool, 4)
    task.constants["DOCKER_CMD"] = HELLO
    assert task.run()
    printed = capsys.readouterr()
    assert sorted(printed.out.splitlines()) == hellos(4) == sorted(task.stdout().splitlines())
    assert "helloworld: Success, 4 instances: 4 succeeded" in printed.err
    pool.close()
    assert pool.wait("Closed", timeout=60) == "Closed"
    assert connection.pools() == []


def test_hello_world_on_an_elastic_pool(connection: Connection) -> None:
    elastic_pool = connection.create_pool("Hello world - elastic pool", "local", 1)
    elastic_pool.setup_elastic(minimum_total_slots=0, maximum_total_slots=5, resize_period=90)
    elastic_pool.submit()
    assert elastic_pool.record.workers == 0
    for name, instances in (("helloworld - 1", 1), ("helloworld - 5", 5)):
        task = connection.create_task(name, elastic_pool, instances)
        task.constants["DOCKER_CMD"] = HELLO
        assert task.run(quiet=True)
        assert sorted(task.stdout().splitlines()) == hellos(instances)
    elastic_pool.close()


def test_workers_with_several_slots_count_as_so_many(connection: Connection) -> None:
    pool = connection.create_pool("pool", "local", 1)
    pool.slots = 3
    with pool:
        task = connection.create_task("together", pool, 3)
        task.command = "touch ../here-$INSTANCE_ID; until [ $(ls .. | grep -c here) = 3 ]; do sleep 0.01; done"
        assert task.wait(timeout=60)
        assert {instance.worker for instance in task.instances} == {f"{pool.id}-1"}
    elastic = connection.create_pool("elastic", "local", 1)
    elastic.slots = 3
    elastic.setup_elastic(minimum_total_slots=1, maximum_total_slots=8, idle_time=20)
    found = elastic.submit().record.elastic
    assert found is not None
    assert (found.min, found.max, found.idle_time) == (1, 2, 20)
    elastic.delete()
    as_in_qarnot = connection.create_pool("as in Qarnot", "local", 1)
    as_in_qarnot.setup_elastic(0, 2, 1, 20, 0.5, 30)
    found = as_in_qarnot.submit().record.elastic
    assert found == Elastic(min=0, max=2, idle_slots=1, idle_time=20, resize_factor=0.5, resize_period=30)
    as_in_qarnot.delete()
    small = connection.create_pool("small", "local", 1)
    small.slots = 3
    small.setup_elastic(maximum_total_slots=2)
    with pytest.raises(CenoteError, match="may have 2 slots, and one worker of it has 3"):
        small.submit()


def test_instances_know_who_they_are_and_have_a_folder_of_their_own(connection: Connection) -> None:
    with connection.create_pool("pool", "local", 2) as pool:
        task = connection.create_task("who", pool, 3)
        task.constants["GREETING"] = "good morning"
        task.command = 'echo "$INSTANCE_ID of $INSTANCE_COUNT: $GREETING"; pwd; ls -A | wc -l'
        assert task.wait(timeout=60)
        told = [task.stdout(number).splitlines() for number in range(3)]
        assert [lines[0] for lines in told] == [f"{number} of 3: good morning" for number in range(3)]
        folders = [Path(lines[1]) for lines in told]
        assert len(set(folders)) == 3
        assert {folder.parent.name for folder in folders} == {"job"}


def test_files_go_in_and_come_out(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "numbers.txt").write_text("1\n2\n3\n")
    (tmp_path / "shared.txt").write_text("for all\n")
    pool = connection.create_pool("pool", "local", 2)
    pool.resources = [str(tmp_path / "shared.txt")]
    with pool:
        task = connection.create_task("sum", pool, 2)
        task.resources = [str(tmp_path / "numbers.txt")]
        task.results = ["sum-*.txt"]
        task.command = (
            "cat ../shared.txt; awk -v i=$INSTANCE_ID '{s += $1 * (i + 1)} END {print s}' numbers.txt"
            " > sum-$INSTANCE_ID.txt"
        )
        assert task.wait(timeout=60)
        assert task.stdout() == "for all\nfor all\n"
        found = task.download_results(tmp_path / "results")
        assert sorted((path.name, path.read_text()) for path in found) == [("sum-0.txt", "6\n"), ("sum-1.txt", "12\n")]


def test_failures_are_told_instance_by_instance(connection: Connection) -> None:
    with connection.create_pool("pool", "local", 2) as pool:
        task = connection.create_task("odd ones fail", pool, 4)
        task.command = "exit $((INSTANCE_ID % 2 * 3))"
        task.retries = 1
        assert not task.wait(timeout=60)
        assert [(one.state, one.exit_code, one.attempts) for one in task.instances] == [
            (InstanceState.SUCCEEDED, 0, 1),
            (InstanceState.FAILED, 3, 2),
        ] * 2
        assert task.state == "Failure"
        slow = connection.create_task("slow", pool, 1)
        slow.command, slow.timeout = "sleep 60", 1
        assert not slow.wait(timeout=60)
        assert "1 s" in slow.instances[0].message


def test_tasks_come_after_others_and_can_be_cancelled(connection: Connection) -> None:
    with connection.create_pool("pool", "local", 1) as pool:
        first = connection.create_task("first", pool, 1)
        first.command = "sleep 0.2; echo first"
        second = connection.create_task("second", pool, 1)
        second.command, second.after = "echo second", [first]
        assert second.wait(timeout=60)
        assert first.state == "Success"
        endless = connection.create_task("endless", pool, 3)
        endless.command = "sleep 600"
        with endless:
            waiting = connection.create_task("waiting", pool, 1)
            waiting.command = "echo at last"
            waiting.submit()
            assert any("endless" in words or "slot" in words for words in waiting.why)
        assert waiting.wait(timeout=60)
        assert endless.state == "Cancelled"


def test_what_can_never_run_is_refused_at_once(connection: Connection) -> None:
    with connection.create_pool("pool", "local", 1) as pool:
        task = connection.create_task("none", pool, 0)
        task.command = "true"
        with pytest.raises(CenoteError, match="at least one instance"):
            task.submit()
        lost = connection.create_task("lost", "poool", 1)
        lost.command = "true"
        with pytest.raises(CenoteError, match="no pool 'poool'; did you mean 'pool'"):
            lost.submit()
        without = connection.create_task("without a command", pool, 1)
        with pytest.raises(CenoteError, match="has no command"):
            without.submit()
        missing = connection.create_task("missing", pool, 1)
        missing.command, missing.resources = "true", ["no-such-file"]
        with pytest.raises(CenoteError, match="no-such-file"):
            missing.submit()
        for constants, words in (
            ({"1X": "1"}, "'1X' cannot name an environment variable"),
            ({"A=B": "1"}, "'A=B' cannot name"),
            ({"A": "\0"}, "holds a NUL"),
            ({"INSTANCE_ID": "7"}, "reserved"),
        ):
            bad = connection.create_task("bad", pool, 1)
            bad.command, bad.constants = "true", constants
            with pytest.raises(CenoteError, match=words):
                bad.submit()
        for name in ("two\nlines", "\x1b[31mred", "turned \u202e round"):
            odd = connection.create_task(name, pool, 1)
            odd.command = "true"
            with pytest.raises(CenoteError, match="what a terminal shows"):
                odd.submit()
        smile = connection.create_task("\N{GRINNING FACE} fine", pool, 1)
        smile.command = "true"
        assert smile.wait(timeout=60)
    with pytest.raises(CenoteError, match="there is no pool profile 'lokal'"):
        connection.create_pool("other", "lokal", 1).submit()


def test_a_service_that_is_killed_goes_on_where_it_was(connection: Connection, tmp_path: Path) -> None:
    pool = connection._line.post("/pools", LivePoolRecord, NewPool(name="pool", workers=1, slots=20))
    task = connection.create_task("many", pool.name, 1020)
    task.command = (
        f"echo $INSTANCE_ID >> {tmp_path / 'ran'}; until [ -e {tmp_path / 'go'} ]; do sleep 0.5; done; echo done"
    )
    task.submit()
    while task.record.counts.get("running", 0) < 20:
        task._record = connection._line.ask(changed_task(task.record, 5.0))
    before = connection.service.pid
    os.kill(before, signal.SIGKILL)
    (tmp_path / "go").touch()
    again = connect()
    assert again.service.pid != before
    late = connection.create_task("late", pool.name, 1)
    late.command = "true"
    late.submit()  # on the connection that the program had
    same = again.task(task.uuid)
    assert same.wait(timeout=240)
    assert Counter((tmp_path / "ran").read_text().split()) == Counter(map(str, range(1020)))
    assert {one.attempts for one in same.instances} == {1}
    assert same.stdout().count("done") == 1020
    assert late.wait(timeout=60)
    again.pool("pool").close()


def test_a_worker_that_is_killed_is_replaced_and_its_instance_begun_again(
    connection: Connection, tmp_path: Path
) -> None:
    with connection.create_pool("pool", "local", 1) as pool:
        task = connection.create_task("once more", pool, 1)
        mark = tmp_path / "mark"
        task.command = f"if [ -e {mark} ]; then echo again; else touch {mark}; kill -9 $PPID; sleep 60; fi"
        assert task.wait(timeout=120)
        assert task.stdout() == "again\n"
        assert task.instances[0].attempts == 2


def test_only_its_user_can_reach_it(connection: Connection, home: ServiceHome) -> None:
    assert connection.service.private
    for path in (home.path, *home.path.glob("*.sqlite"), home.read_address(), home.identity / "service.pem"):
        assert path is not None
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_two_programs_that_begin_at_once_share_one_service(home: ServiceHome) -> None:
    first, second = connect(), connect()
    assert first.service.pid == second.service.pid
    assert home.path.is_dir()


def test_a_program_leaves_nothing_in_the_folder_that_it_was_started_in(
    home: ServiceHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert home.read_address() is None
    with connect() as connection, connection.create_pool("pool", "local", 1) as pool:
        task = connection.create_task("where", pool, 1)
        task.command = "pwd"
        assert task.wait(timeout=60)
        assert list(here.iterdir()) == []


def test_a_service_that_is_stopped_takes_its_workers_along_and_the_next_one_begins_anew_what_they_ran(
    connection: Connection, home: ServiceHome, tmp_path: Path
) -> None:
    pool = connection.create_pool("pool", "local", 2)
    pool.submit()
    task = connection.create_task("slow", pool, 3)
    mark = f"{tmp_path}/$INSTANCE_ID"
    task.command = f"echo $$; [ $INSTANCE_ID = 2 ] || [ -e {mark} ] || {{ touch {mark}; exec sleep 600; }}"
    task.submit()
    while len(pids := task.stdout().split()) < 2:
        task._record = connection._line.ask(changed_task(task.record, 0.1))
    stop_service(home)
    assert not home.is_taken
    assert [pid for pid in pids if Path("/proc", pid).exists()] == []
    same = connect().task(task.uuid)
    assert same.wait(timeout=30)
    assert sorted(one.attempts for one in same.instances) == [1, 2, 2]


def test_results_may_have_any_name(connection: Connection, tmp_path: Path) -> None:
    with connection.create_pool("pool", "local", 1) as pool:
        task = connection.create_task("odd names", pool, 1)
        long = "x" * 230
        task.command = (
            f"mkdir d; echo > d/f; for n in 'a \"b' a%2fb u.part {long} $(printf 'b\\377'); do echo > \"$n\"; done"
        )
        task.results = ["*"]
        assert task.wait(timeout=30)
        found = task.download_results(tmp_path / "results")
        names = [path.relative_to(tmp_path / "results/0").as_posix() for path in found]
        assert sorted(names) == sorted(['a "b', "a%2fb", "b\\xff", "d/f", "u.part", long])


def test_tasks_of_a_pool_that_is_used_as_a_context_are_over_when_it_is_closed(connection: Connection) -> None:
    with connection.create_pool("pool", "local", 1) as pool:
        task = connection.create_task("three", pool, 3)
        task.command = "echo done"
        task.submit()
    assert task.state == "Success"
    assert task.stdout() == "done\n" * 3


def test_nonsense_is_refused_in_words(connection: Connection) -> None:
    with pytest.raises(CenoteError, match="1000000 workers"):
        connection.create_pool("huge", "local", 1_000_000).submit()
    with pytest.raises(CenoteError, match="1000 workers on this machine"):
        connection.create_pool("large", "local", 1_000).submit()
    elastic = connection.create_pool("elastic")
    with pytest.raises(CenoteError, match="should not be more than max"):
        elastic.setup_elastic(minimum_total_slots=3, maximum_total_slots=2)
    elastic.setup_elastic(minimum_total_slots=-1)
    with pytest.raises(CenoteError, match="at least 0, not -1"):
        elastic.submit()
    with connection.create_pool("pool", "local", 0) as pool:
        task = connection.create_task("task", pool, 10**20)
        task.command = "true"
        with pytest.raises(CenoteError, match="at most 1000000 instances"):
            task.submit()
        task.instancecount = 1
        task.constants["LARGE"] = "x" * 200_000
        with pytest.raises(CenoteError, match="LARGE should have at most 100,000 bytes, not 200,000"):
            task.submit()
        del task.constants["LARGE"]
        with task, pytest.raises(CenoteError, match="cannot be read"):
            task.change("priority", priority="high")


def test_files_that_instances_cannot_have_are_refused_in_words(connection: Connection, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.txt").touch()
    both = [str(tmp_path / folder / "data.txt") for folder in ("one", "two")]
    for files, words in (
        ([str(tmp_path / "missing")], "there is no file"),
        (["n" * 300], "there is no file"),
        (["/proc/self/mem"], "cannot be sent to instances: input/output error"),
        (both, "2 files are called 'data.txt'"),
    ):
        pool, task = connection.create_pool("pool", "local", 0), connection.create_task("task", "default", 1)
        pool.resources = task.resources = files
        task.command = "true"
        for asked in (pool, task):
            with pytest.raises(CenoteError, match=words):
                asked.submit()
        assert connection.pools() == []


def test_a_file_that_cannot_be_read_any_more_is_missed_by_its_task_and_by_nobody_else(
    connection: Connection, tmp_path: Path
) -> None:
    (tmp_path / "data.txt").touch()
    (tmp_path / "link.txt").symlink_to(tmp_path / "data.txt")
    with connection.create_pool("pool", "local", 1) as pool:
        first, second = (connection.create_task(name, pool, 1) for name in ("first", "second"))
        first.command = f"until [ -e {tmp_path}/go ]; do sleep 0.01; done"
        second.command, second.resources, second.after = "ls", [str(tmp_path / "link.txt")], [first]
        second.submit()
        (tmp_path / "link.txt").unlink()
        (tmp_path / "link.txt").symlink_to("/proc/self/mem")
        (tmp_path / "go").touch()
        assert second.wait(timeout=60)
        assert second.stdout() == ""


def test_the_queue_has_no_place_for_pools_that_are_closed(connection: Connection) -> None:
    closed, open_ = (connection.create_pool(name, "local", 1).submit() for name in ("closed", "open"))
    closed.close()
    closed.wait("Closed", timeout=60)
    names = set(connection._line.get("/queue", dict[str, tuple[QueuedTaskRecord, ...]]))
    open_.close()
    assert (closed.id in names, open_.id in names) == (False, True)


def test_lists_of_a_task_that_are_none_are_refused_before_anything_is_sent(connection: Connection) -> None:
    def a_task() -> TaskHandle:
        task = connection.create_task("fit", "default", 1)
        task.command = "true"
        return task

    itself = a_task()
    itself.after = [itself]
    with pytest.raises(CenoteError, match="task 'fit' comes after itself"):
        itself.submit()
    for name, wrong, words in (
        ("results", "*.txt", "`results` of task 'fit' should be a list, and is the text '*.txt'"),
        ("resources", "numbers.txt", "`resources` of task 'fit' should be a list"),
        ("after", "sums", "`after` of task 'fit' should be a list"),
        ("after", ["sums"], "`after` of task 'fit' names 'sums', which is not a task"),
        ("amounts", {"gpu": 1}, "asks for 'gpu'; amounts are cpus, memory, gpus, disk"),
        ("amounts", {"memory": "a lot"}, "`amounts` of task 'fit': "),
    ):
        task = a_task()
        setattr(task, name, wrong)
        with pytest.raises(CenoteError, match=re.escape(words)):
            task.submit()
    with connection.create_pool("pool", "local", 1) as pool:
        task = a_task()
        task.resource_pool = pool.submit().id
        task.amounts = {"memory": "900TB", "cpus": 1000}
        with pytest.raises(CenoteError, match="an instance asks for 1000 CPUs"):
            task.submit()


def test_a_pool_that_something_waits_for_is_not_closed(connection: Connection) -> None:
    pool = connection.create_pool("pool", "local", 1).submit()
    busy = connection.create_task("busy", pool, 2)
    busy.command = "sleep 600"
    busy.submit()
    with pytest.raises(CenoteError, match="still wait for pool 'pool'"):
        pool.close()
    with pytest.raises(ZeroDivisionError), pool:
        raise ZeroDivisionError  # that is told, and not that the pool stays
    assert pool.state != "Closed"
    pool.delete()
    assert not busy.wait(timeout=60)
    assert busy.state == "Cancelled"


def test_a_result_that_cannot_be_kept_fails_its_instance_and_is_named(connection: Connection, tmp_path: Path) -> None:
    with connection.create_pool("pool", "local", 1) as pool:
        task = connection.create_task("odd name", pool, 1)
        task.command = "echo fine > fine; echo > $(printf '\\377%.0s' $(seq 200))"  # four letters each, as text
        task.results = ["*"]
        assert not task.wait(timeout=60)
        (instance,) = task.instances
        assert instance.state == InstanceState.FAILED
        assert "cannot be kept: file name too long" in instance.message
        (found,) = task.download_results(tmp_path / "results")
        assert found.read_text() == "fine\n"
