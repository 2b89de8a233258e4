"""Run studies in this process, and say what two runs left that is not the same to the last bit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import cenote
from cenote.analysis.products.support import fill_sums
from cenote.api import Run
from cenote.engine.messages import AnyEvent, TaskDone
from cenote.execution.backends.interface import Session, SessionRequest
from cenote.execution.backends.local.backend import LocalBackend
from cenote.execution.backends.local.in_process import InProcessSession
from cenote.planning.plan import Plan

BYTE_BY_BYTE = (".json", ".csv", ".parquet")


class Here(LocalBackend):
    """Runs everything in this process, own code too: a start of a process takes longer than a small run."""

    example: ClassVar[str] = "execution: {backend: here}"

    def open(self, request: SessionRequest) -> Session:
        """In this process."""
        return InProcessSession(request, self.patience)


@dataclass(frozen=True)
class Ran:
    """A run and what it did."""

    run: Run
    plan: Plan
    done: tuple[int, ...]
    """Tasks that ran."""

    def datasets(self) -> set[str]:
        """Those of the tasks that read events."""
        tasks = self.plan.tasks
        reading = [task for task in self.done if tasks.kind[task] == 0]
        return {self.plan.partitions[int(tasks.partition[task])].dataset for task in reading}


def run_here(folder: Path, out: Path, *, fresh: bool = False) -> Ran:
    """Run the study of a folder in this process; one that fails raises."""
    plans: list[Plan] = []
    done: list[int] = []

    def hear(plan: Plan, event: AnyEvent) -> None:
        plans.append(plan)
        if isinstance(event, TaskDone):
            done.append(event.task)

    with contextlib.chdir(folder):
        run = cenote.load("flow.yaml", backend="here").run(out, fresh=fresh, report=False, hear=hear)
    if run.status != "succeeded":
        raise cenote.common.errors.error(cenote.common.errors.STAGE_FAILED, str(run.failures))
    return Ran(run, plans[0], tuple(done))


def differences(one: Run, other: Run) -> Iterator[str]:
    """What the runs left that differs, by name."""
    if one.products != other.products:
        yield f"products: {one.products} {other.products}"
    for name in set(one.products).intersection(other.products):
        if not name.endswith(":files") and not same(one.product(name), other.product(name)):
            yield f"product {name}: {one.product(name)!r} {other.product(name)!r}"
    files, others = _files(one.folder), _files(other.folder)
    yield from (f"file {name} is in one run alone" for name in files.keys() ^ others.keys())
    for name in files.keys() & others.keys():
        if Path(name).suffix in BYTE_BY_BYTE and files[name].read_bytes() != others[name].read_bytes():
            yield f"file {name} differs"


def same(one: Any, other: Any) -> bool:
    """Whether two products are equal to the last bit, with what is only shown."""
    if type(one) is not type(other):
        return False
    if not hasattr(one, "view"):
        return bool(repr(one) == repr(other))
    if one.view(flow=True).tobytes() != other.view(flow=True).tobytes() or len(one.axes) != len(other.axes):
        return False
    axes = zip(one.axes, other.axes, strict=True)
    labels = all((a.name, a.label, list(a), a.traits) == (b.name, b.label, list(b), b.traits) for a, b in axes)
    sums = fill_sums.sums_of(one), fill_sums.sums_of(other)
    return labels and _bytes(sums[0]) == _bytes(sums[1])


def _bytes(sums: Any) -> bytes:
    return b"" if sums is None else sums.tobytes()


def _files(folder: Path) -> dict[str, Path]:
    products = folder / "products"
    found = {str(file.relative_to(products)): file for file in products.rglob("*") if file.is_file()}
    return {name: file for name, file in found.items() if not name.startswith(".")}
