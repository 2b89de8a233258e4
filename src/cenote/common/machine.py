"""Measure the machine it runs on: cpus, memory, GPUs and disk that this process may really use."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from cenote.common.values import dataclass

_UNLIMITED = 1 << 60
"""Above it, a memory limit of cgroup v1 means "none": the kernel writes the largest multiple of a page."""
GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
"""Tells the CUDA programs of a process which GPUs there are."""


@dataclass(frozen=True)
class Machine:
    """Hardware in numbers; memory and disk in bytes, where 0 means that it is not known."""

    cpus: int
    memory: int
    gpus: int = 0
    disk: int = 0


def this_machine(*, root: Path = Path("/")) -> Machine:
    """What this process may use here; `disk` is what is free where temporary files go.

    `root` is where `proc`, `sys` and `dev` are found.
    """
    return Machine(
        cpus=_cpus(root),
        memory=_memory(root),
        gpus=len(visible_gpus(root)),
        disk=_disk(Path(tempfile.gettempdir())),
    )


def _disk(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _cpus(root: Path) -> int:
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for folder in _cgroups(root, "cpu") if (quota := _cpu_quota(folder)) is not None]
    return max(1, int(min([float(allowed), *quotas])))


def _cpu_quota(folder: Path) -> float | None:
    """Cpus that a cgroup (v2, then v1) grants; None where it sets no limit."""
    if words := _text(folder / "cpu.max").split():
        quota, period = words[0], words[1] if len(words) > 1 else "100000"
    else:
        quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _memory(root: Path) -> int:
    limits = [
        int(text)
        for folder in _cgroups(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _text(folder / name)).isdigit() and int(text) < _UNLIMITED
    ]
    total = re.search(r"MemTotal:\s*(\d+) kB", _text(root / "proc/meminfo"))
    physical = int(total[1]) * 1024 if total else _memory_by_sysconf()
    return min([physical, *limits]) if physical else min(limits, default=0)


def _memory_by_sysconf() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0


def visible_gpus(root: Path = Path("/")) -> tuple[str, ...]:
    """What CUDA calls the GPUs here: as `CUDA_VISIBLE_DEVICES` says (`-1` hides the rest), else all that exist."""
    visible = os.environ.get(GPU_VARIABLE)
    if visible is None:
        devices = [device for device in (root / "dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", device.name)]
        return tuple(str(number) for number in range(len(devices)))
    names = [name.strip() for name in visible.split(",")]
    hidden = (i for i, name in enumerate(names) if name in ("", "-1", "none", "NoDevFiles"))
    return tuple(names[: next(hidden, len(names))])


def _cgroups(root: Path, controller: str) -> list[Path]:
    """The folders of this process's cgroups, from its own up to the top: each of them may set a limit."""
    mount = root / "sys/fs/cgroup"
    folders: list[Path] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = mount / controller if controllers else mount
        own = top / group.strip("/")
        folders += [folder for folder in (own, *own.parents) if folder == top or top in folder.parents]
    return folders or [mount, mount / controller]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
