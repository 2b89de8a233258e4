"""The `cuda.jit` modifier: compiles what a stage computes for the GPU, and computes it there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import ClassVar, Literal

from cenote.analysis.modifiers.interface import Effect, Modifier, Run, StageCall
from cenote.analysis.modifiers.support.cuda_kernels import Cuda, buffers_of, column_of, find_cuda, launch
from cenote.analysis.modifiers.support.devices import Device, find_device, run_on_cpu
from cenote.analysis.modifiers.support.measures import Measure
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.operations.support.kernels import Kernel, NoKernelError


class Jit(Modifier):
    """Computes the new columns of a stage on the GPU, by kernels that are compiled once per worker.

    The operation must say how a column is computed one value at a time: `define` and `hep.define` do for arithmetic,
    comparisons, `sqrt`, `abs` and `where`; own operations by `kernels=`. Others run as without this modifier, and so do
    all where there is no GPU.
    """

    example: ClassVar[str] = """
    - id: Energy
      op: define
      params: {twice: "2 * MET_pt"}
      execution:
        prefer: gpu
        modifiers: [cuda.jit]
    """
    why_not_compiled: ClassVar[str] = "decides how it computes"
    effect: ClassVar[Effect] = Effect.EXECUTES
    measures: ClassVar[Mapping[str, Measure]] = {
        "ran": Measure("Ran on", "words"),
        "values": Measure("Values"),
        "seconds": Measure("Time", unit="seconds"),
        "compiled": Measure("Kernels compiled"),
    }

    on_unavailable: Literal["cpu", "error"] = "cpu"
    """Without a GPU: `cpu` computes there, with a warning; `error` fails the task."""
    exact: bool = True
    """Leave expressions to the CPU that use functions which a GPU rounds otherwise in the last bit: `exp`, `cos`, …"""

    def around(self, run: Run, events: Events, call: StageCall) -> Result:
        """Compute with kernels where the operation has some and there is a GPU; else as usual."""
        try:
            kernels = self._kernels(events, call)
            found = find_cuda()
            if isinstance(found, Cuda):
                return self._computed(found, kernels, events, call)
        except NoKernelError as problem:
            call.warn(f"stage '{call.stage}' runs as without it: {problem}")
            call.note(ran=f"the CPU: {problem}")
            return run(events)
        return run_on_cpu(found.reason, run, events, call, on_unavailable=self.on_unavailable)

    def _kernels(self, events: Events, call: StageCall) -> Mapping[str, Kernel]:
        kernels = call.operation.kernels(events)
        if not kernels:
            raise NoKernelError("its operation has no kernels to compile")
        for name, kernel in kernels.items():
            if self.exact and kernel.note:
                raise NoKernelError(f"'{name}': {kernel.note} (`exact: false` allows it)")
            for parameter, value in kernel.constants.items():
                if not isinstance(value, int | float):
                    raise NoKernelError(f"the kernel of '{name}' takes '{parameter}', which is not a number")
        return kernels

    def _computed(self, cuda: Cuda, kernels: Mapping[str, Kernel], events: Events, call: StageCall) -> Result:
        start = time.perf_counter()
        columns: dict[str, Column] = {}
        values = compiled = 0
        device = find_device() if events.resident and not cuda.simulated else None
        for name, kernel in kernels.items():
            buffers = buffers_of(kernel, events, columns)
            results, new = launch(cuda, kernel, buffers)
            flat = device.adopted(results) if isinstance(device, Device) else results.copy_to_host()
            columns[name] = column_of(flat, kernel, buffers)
            values += len(flat)
            compiled += new
        if cuda.simulated:
            call.warn("kernels run in Numba's simulator, not on a GPU")
        call.note(ran=cuda.name, values=values, compiled=compiled, seconds=time.perf_counter() - start)
        return call.operation.assembled(events, columns)
