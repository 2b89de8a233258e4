"""What a process may really use, in containers and batch jobs too."""

from __future__ import annotations

from pathlib import Path

import pytest

from cenote.common.machine import this_machine

GIB = 2**30


def a_root(folder: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": "MemTotal:       16777216 kB\nMemFree: 1 kB\n", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture(autouse=True)
def sixteen_cpus_and_no_cuda_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_this_machine_has_something_of_everything() -> None:
    machine = this_machine()
    assert machine.cpus >= 1
    assert machine.memory > 0
    assert machine.disk > 0


def test_without_limits_all_of_it_counts(tmp_path: Path) -> None:
    machine = this_machine(root=a_root(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000"}))
    assert (machine.cpus, machine.memory) == (16, 16 * GIB)


def test_the_tightest_limit_of_the_groups_above_counts(tmp_path: Path) -> None:
    root = a_root(
        tmp_path,
        {
            "proc/self/cgroup": "0::/slurm/job_1/step_0\n",
            "sys/fs/cgroup/slurm/job_1/cpu.max": "250000 100000",
            "sys/fs/cgroup/slurm/job_1/memory.max": str(4 * GIB),
            "sys/fs/cgroup/slurm/job_1/step_0/memory.max": "max",
        },
    )
    assert this_machine(root=root).cpus == 2
    assert this_machine(root=root).memory == 4 * GIB


def test_the_first_version_of_cgroups_is_read_too(tmp_path: Path) -> None:
    root = a_root(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/box\n3:cpu,cpuacct:/box\n2:pids:/box\n",
            "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "300000",
            "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": str(8 * GIB),
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        },
    )
    assert (this_machine(root=root).cpus, this_machine(root=root).memory) == (3, 8 * GIB)


def test_half_a_cpu_is_one(tmp_path: Path) -> None:
    root = a_root(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000"})
    assert this_machine(root=root).cpus == 1


def test_gpus_are_counted_by_their_devices(tmp_path: Path) -> None:
    root = a_root(tmp_path, {"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidiactl": "", "dev/nvidia-uvm": ""})
    assert this_machine(root=root).gpus == 2


@pytest.mark.parametrize(("visible", "gpus"), [("0,1,2", 3), ("", 0), ("-1", 0), ("0,-1,1", 1), ("GPU-1a,GPU-2b", 2)])
def test_the_variable_of_cuda_decides_where_it_is_set(
    visible: str, gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert this_machine(root=a_root(tmp_path, {"dev/nvidia0": ""})).gpus == gpus
