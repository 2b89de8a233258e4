"""The `gpu.preload` modifier: the columns of a stage lie on the GPU before it runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from cenote.analysis.modifiers.interface import Effect, Modifier, Run, StageCall
from cenote.analysis.modifiers.support.devices import Device, NoDevice, find_device, run_on_cpu
from cenote.analysis.modifiers.support.measures import Measure
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Column, Events
from cenote.common import errors
from cenote.common.text import column_name, did_you_mean, listed
from cenote.common.units import format_bytes
from cenote.common.values import dataclass
from cenote.language.plugins.settings import Memory


class DeviceMemoryError(MemoryError):
    """Columns do not fit into the memory of the GPU."""


@dataclass(frozen=True)
class Resident:
    """A column in both memories."""

    host: Column
    device: Column


class Preload(Modifier):
    """Moves the columns that the stage reads to the GPU, where they stay for the stages that follow in the same task
    and ask for the same. Results come back as soon as a stage that computes on the CPU needs them.

    The code of the stage sees CuPy arrays, and awkward arrays with the backend `cuda`. Built-in operations compute on
    the CPU, and are left alone.
    """

    example: ClassVar[str] = """
    - id: RunInference
      op: custom.inference
      execution:
        require: gpu
        modifiers: [gpu.preload]
    """
    why_not_compiled: ClassVar[str] = "moves its columns to a GPU"
    effect: ClassVar[Effect] = Effect.EXECUTES
    measures: ClassVar[Mapping[str, Measure]] = {
        "ran": Measure("Ran on", "words"),
        "moved": Measure("Moved there", unit="bytes"),
        "stayed": Measure("Were there", unit="bytes"),
        "returned": Measure("Came back", unit="bytes"),
    }

    fields: tuple[str, ...] | None = None
    """The columns to move, of those that the stage reads; by default all of them."""
    budget: Memory | None = None
    """The memory of the GPU that these columns may take; by default half of what is free."""
    on_unavailable: Literal["cpu", "error"] = "cpu"
    """Without a GPU, or when the columns do not fit: `cpu` computes there, with a warning; `error` fails the task. A
    task that fails for want of memory is tried again with its partition in pieces."""

    def check_stage(self, stage: str, reads: Collection[str]) -> None:
        """Columns that the stage does not read are not there, or would take the room for nothing."""
        for name in self.fields or ():
            if column_name(name, reads) not in reads:
                raise errors.error(
                    errors.BAD_VALUE,
                    f"'fields' names '{name}', which stage '{stage}' does not read",
                    details=(f"it reads {listed(sorted(reads)) or 'no columns'}",),
                    hint=did_you_mean(name, reads),
                )

    def around(self, run: Run, events: Events, call: StageCall) -> Result:
        """Move, call, bring back."""
        found = find_device()
        if isinstance(found, NoDevice):
            return run_on_cpu(found.reason, run, events, call, on_unavailable=self.on_unavailable)
        if not call.operation.takes_device_columns:
            call.note(ran=f"the CPU, where operations such as {type(call.operation).__name__} compute")
            return run(events)
        return _Preloading(self, found, call).around(run, events)

    def wanted(self, events: Events, call: StageCall) -> list[str]:
        """The columns to move, by the names that they have here."""
        if self.fields is None:
            return [name for name in self._known(call.reads, events) if name in events.columns]
        for name in self.fields:
            if name not in events:
                hint = did_you_mean(name, events.columns)
                raise errors.error(errors.BAD_VALUE, f"there is no column '{name}' to move", hint=hint)
        return self._known(self.fields, events)

    def _known(self, names: Iterable[str], events: Events) -> list[str]:
        return list(dict.fromkeys(column_name(name, events.columns) for name in names))

    def limit(self, device: Device) -> int:
        """Bytes that columns may take."""
        return device.free_memory() // 2 if self.budget is None else min(self.budget, device.free_memory())

    def beyond(self, needed: int, limit: int, run: Run, events: Events, call: StageCall) -> Result:
        """What happens when columns do not fit."""
        words = f"its columns take {format_bytes(needed)}, and {format_bytes(limit)} of the GPU's memory are for them"
        if self.on_unavailable == "error":
            raise DeviceMemoryError(words)
        call.warn("some tasks compute on the CPU: their columns do not fit into the GPU's memory")
        call.note(ran="the CPU: the columns do not fit into the GPU's memory")
        return run(events)


class _Preloading:
    """One call with a GPU."""

    def __init__(self, settings: Preload, device: Device, call: StageCall) -> None:
        self._settings, self._device, self._call = settings, device, call
        self._there: dict[str, Resident] = call.kept

    def around(self, run: Run, events: Events) -> Result:
        wanted = self._settings.wanted(events, self._call)
        moving = [name for name in wanted if not self._is_there(name, events.columns[name])]
        needed, limit = sum(_bytes(events.columns[name]) for name in moving), self._settings.limit(self._device)
        if needed > limit:
            return self._settings.beyond(needed, limit, run, self._home(events), self._call)
        resident = {name: self._moved(name, events.columns[name]) for name in wanted}
        stayed = sum(_bytes(column) for name, column in resident.items() if name not in moving)
        try:
            result = run(replace(events, resident=resident))
            self._device.wait()
        except Exception as problem:
            problem.add_note("gpu.preload: the columns of this stage lie on the GPU")
            raise
        returned, home = self._returned(result)
        words = f"{self._device.name}{', simulated' if self._device.simulated else ''}"
        self._call.note(ran=words, moved=needed, stayed=stayed, returned=returned)
        return home

    def _is_there(self, name: str, column: Column) -> bool:
        known = self._there.get(name)
        return self._device.holds(column) or (known is not None and known.host is column)

    def _moved(self, name: str, column: Column) -> Column:
        """The column there; in both memories from now on, until another one takes its name."""
        if self._device.holds(column):
            return column
        if not self._is_there(name, column):
            try:
                self._there[name] = Resident(column, self._device.to_device(column))
            except TypeError as problem:
                raise errors.error(
                    errors.BAD_VALUE, f"column '{name}' cannot be moved: {problem}", hint="name others under `fields`"
                ) from None
        return self._there[name].device

    def _returned(self, result: Result) -> tuple[int, Result]:
        """The result with everything on the host that anybody but the next stage on the GPU reads."""
        events, size = result.events, 0
        columns = dict(events.columns)
        for name in [name for name, column in columns.items() if self._device.holds(column)]:
            there = columns[name]
            if name in self._only_next_reads():
                continue
            if events.live is not None and name not in {*events.live, *self._call.adds}:
                del columns[name]  # an earlier stage left it there for this one alone
                continue
            columns[name] = self._device.to_host(there)
            self._there[name] = Resident(columns[name], there)
            size += _bytes(there)
        product = self._product_home(result.product)
        return size, replace(result, events=replace(events, columns=columns, resident={}), product=product)

    def _only_next_reads(self) -> frozenset[str]:
        """Columns that nobody reads but the stage that follows on the GPU."""
        following = self._call.following
        if following is None or not following.operation.takes_device_columns:
            return frozenset()
        other = following.modifiers.get(self._call.modifier)
        if not isinstance(other, Preload):
            return frozenset()
        reads = following.reads if other.fields is None else set(other.fields) & set(following.reads)
        return frozenset(reads) - frozenset(following.live)

    def _home(self, events: Events) -> Events:
        """With every column on the host."""
        held = {name: column for name, column in events.columns.items() if self._device.holds(column)}
        return events.with_columns({name: self._device.to_host(column) for name, column in held.items()})

    def _product_home(self, product: Any) -> Any:  # Any: whatever the stage makes
        if type(product) is dict:
            return {key: self._product_home(value) for key, value in product.items()}
        return self._device.to_host(product) if self._device.holds(product) else product


def _bytes(column: Column) -> int:
    return int(getattr(column, "nbytes", 0))
