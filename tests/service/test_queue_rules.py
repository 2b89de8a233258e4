"""Rules of a queue as users meet them: a real service with a file, its commands and its Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cenote.cli.main import exit_code_of
from cenote.common.errors import CenoteError
from cenote.language.execution import Amounts
from cenote.service.client.connection import Connection, connect
from cenote.service.client.home import ServiceHome
from cenote.service.client.start import answering, reload_service, stop_service
from cenote.service.client.task_file import task_of_file

FILE = """
execution:
  defaults: {cpu: default, gpu: gpu}
  pools:
    default: {strategy: local, workers: 1, slots: 12, resources: {cpus: 12}}
    gpu: {strategy: local, workers: 1, resources: {gpus: 1}, cost: 1}
    zone_a: {strategy: local, workers: 0, fallback: zone_b, fallback_when: {no_worker_for: 1s}}
    zone_b: {strategy: local, elastic: {min: 0, max: 1, idle_time: 1s, resize_period: 0s}}
service:
  shares: {groups: {big: 2, small: 1}}
  most_slots: {others: 40}
"""
PATIENCE = 120.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "pools.yaml"
    written.write_text(FILE)
    return written


@pytest.fixture
def served(home: ServiceHome, file: Path) -> Iterator[Connection]:
    """A service with this file, ended by its folder."""
    command = [sys.executable, "-m", "cenote", "serve", str(file), "--home", str(home.path)]
    environment = {**os.environ, "CENOTE_SITE": "none"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until_true(lambda: answering(home) is not None or process.poll() is not None)
    with connect() as connection:
        yield connection
    stop_service(home)
    process.wait(timeout=PATIENCE)


def until_true(condition: Callable[[], bool]) -> None:
    """Wait for a condition, for a generous time."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never became so"
        time.sleep(0.05)


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert exit_code_of(words) == code
    found = capsys.readouterr()
    return found.out + found.err


def test_groups_with_weights_two_to_one_share_twelve_slots_eight_to_four(served: Connection, tmp_path: Path) -> None:
    done = tmp_path / "enough"
    for group in ("big", "small"):
        task = served.create_task(group, "default", 500)
        task.group, task.command = group, f"test -e {done} || sleep 0.2"
        task.submit()

    def shares() -> dict[str, int]:
        found = {one.group: one.counts for one in (task.record for task in served.tasks(pool="default"))}
        return {group: counts.get("running", 0) + counts.get("assigned", 0) for group, counts in found.items()}

    until_true(lambda: shares() == {"big": 8, "small": 4})
    seen = Counter(tuple(sorted(shares().items())) for _ in range(20))
    done.touch()
    assert seen.most_common(1)[0][0] == (("big", 8), ("small", 4))
    for task in served.tasks(pool="default"):
        task.cancel()


def test_tasks_go_to_the_default_pool_of_their_kind(
    served: Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "task.yaml").write_text(
        "name: hello\ncommand: cat greeting.txt; echo $WHO\nfiles: greeting.txt\n"
        "resources: {slots: 1}\nconstants: {WHO: 42}\n"
    )
    (tmp_path / "greeting.txt").write_text("good morning\n")
    assert "hello" in printed(capsys, "tasks", "--create", str(tmp_path / "task.yaml"))
    (task,) = served.tasks(pool="gpu")
    assert task.wait(timeout=PATIENCE)
    assert task.stdout() == "good morning\n42\n"

    (tmp_path / "cpu.yaml").write_text("name: cpu\ncommand: 'true'\nresources: {slots: 0}\n")
    cpu = task_of_file(served, tmp_path / "cpu.yaml")
    assert cpu.submit().resource_pool == "default"
    named = served.create_task("named")
    named.resource_pool, named.command = "gpu", "true"
    assert named.submit().resource_pool == "gpu"
    impossible = served.create_task("impossible")
    impossible.command, impossible.amounts = "true", Amounts(gpus=8)
    with pytest.raises(CenoteError, match="a slot of pool 'gpu' has 1 GPU; an instance asks for 8 GPUs"):
        impossible.submit()


def test_work_falls_back_from_zone_to_zone_and_the_queue_says_so(
    served: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    task = served.create_task("roaming", "zone_a", 1)
    task.command = "true"
    assert task.wait(timeout=PATIENCE)
    assert (task.record.pool, task.record.fell_back_from) == ("zone_b", ("zone_a",))
    assert "fell back from zone_a" in printed(capsys, "tasks", "roaming")
    until_true(lambda: served.pool("zone_b").record.workers == 0)


def test_rules_change_when_the_file_is_read_again(
    served: Connection, home: ServiceHome, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(FILE.replace("others: 40", "others: none"))
    with pytest.raises(CenoteError, match=r"pools.yaml:11:24: 'most_slots.others' of 'service'"):
        reload_service(home)
    file.write_text(FILE.replace("others: 40", "others: 0"))
    printed(capsys, "serve", "--reload")
    task = served.create_task("one")
    task.command = "true"
    with pytest.raises(CenoteError, match="may not have any slot, by the rules"):
        task.submit()

    file.write_text(f"{FILE}  pools: {{gpu: {{budget: {{amount: 0.2, per: week}}}}}}\n")
    reload_service(home)
    dear = served.create_task("dear", "gpu")
    dear.command, dear.timeout = "echo printed", 60
    assert dear.wait(timeout=PATIENCE)
    assert dear.stdout() == "printed\n"
    file.write_text(f"{FILE}  pools: {{gpu: {{budget: {{amount: 0.1, per: week}}}}}}\n")
    reload_service(home)
    until_true(lambda: "budget of pool 'gpu'" in served.pool("gpu").record.reason)
    assert "more on Monday 00:00" in served.pool("gpu").record.reason

    file.write_text(f"{FILE}  keep_output: 0s\n")
    reload_service(home)
    until_true(lambda: not home.task(dear.uuid).exists())
    assert dear.record.why == ("what it printed and left was kept for 0 ms",)
    assert (dear.state, dear.stdout()) == ("Success", "")


def test_the_queue_is_foreseen_changed_and_shown(
    served: Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = tmp_path / "done"
    first = served.create_task("first", "gpu", 2)
    first.command = f"until test -e {done}; do sleep 0.1; done"
    first.submit()
    second = served.create_task("second", "gpu")
    second.command = "true"
    second.submit()
    until_true(lambda: bool(first.record.counts.get("running")))

    foreseen = {one.name: one for one in served.forecast(duration=60).tasks}
    assert foreseen["first"].starts is not None
    assert foreseen["second"].starts is not None
    assert foreseen["first"].starts < foreseen["second"].starts
    assert (foreseen["second"].ahead, foreseen["second"].duration) == (1, "assumed")
    assert "second" in printed(capsys, "simulate", "--queue", "--duration", "1m")
    assert len(json.loads(printed(capsys, "simulate", "--queue", "--json"))["tasks"]) == 2

    printed(capsys, "tasks", "second", "--priority", "5")
    assert [task.name for task in served.queue("gpu").tasks] == ["second", "first"]
    assert "from -1000000 to 1000000" in printed(capsys, "tasks", "second", "--priority", "9999999", code=10)
    printed(capsys, "tasks", "second", "--pause")
    assert second.why == ("it is paused",)
    printed(capsys, "tasks", "second", "--resume", "--priority", "0", "--ahead-of", "first")
    assert [task.name for task in served.queue("gpu").tasks] == ["second", "first"]
    assert "<td>second</td>" in served.queue()._repr_html_()
    with pytest.raises(CenoteError, match="is submitted"):
        second.resource_pool = "default"
    second.change("move", pool="default")
    assert second.wait(timeout=PATIENCE)
    impatient = served.create_task("impatient", "gpu")
    impatient.command, impatient.queue_timeout = "true", 1
    assert not impatient.wait(timeout=PATIENCE)
    assert "past its own `queue_timeout`" in impatient.why[0]
    done.touch()
    assert first.wait(timeout=PATIENCE)
    assert repr(served.queue()) == "QueueView(nothing waits)"
