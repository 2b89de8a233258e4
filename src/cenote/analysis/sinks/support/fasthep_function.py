"""Let a function that was written for FAST-HEP be a sink: it is given all events of a dataset, or of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.fasthep_function import Described, described_as, input_name
from cenote.analysis.sinks.interface import Sink
from cenote.analysis.sinks.parquet import ParquetSink
from cenote.analysis.sources.parquet import ParquetSource
from cenote.common.arrays import ak


class FasthepSink(Described, Sink):
    """A function `f(*, target, path, <params>, ctx)` of a package that was written for FAST-HEP."""

    demands_whole: ClassVar[bool] = True
    word: ClassVar[str] = "sink"
    given: ClassVar[tuple[str, ...]] = ("path", "when")

    def wants(self) -> tuple[str, ...] | None:
        """What the description requires; without that, everything."""
        return self.symbols("requires") if "requires" in self.description else None

    def write(self, events: Events, target: Path) -> None:
        """A part, which `merge` reads."""
        ParquetSink().write(events, target)

    def merge(self, parts: Sequence[Path], target: Path) -> None:
        """Call the function with the events of all parts."""
        found = [part for path in parts if len(part := _part(path))] or [_part(parts[0])]
        whole = found[0] if len(found) == 1 else ak.concatenate(found)
        self.call({}, path=str(target), **{input_name(self.description): whole})
        if not target.exists():
            raise FileNotFoundError(f"it did not write the file that it was given as `path`, {target}")


def _part(path: Path) -> Any:
    source = ParquetSource()
    info = source.describe(str(path))
    return ak.zip(source.read(str(path), list(info.columns), 0, info.entries), depth_limit=1)


def adapted(
    function: Callable[..., Any], name: str, what: str, description: Mapping[str, Any] | None = None
) -> type[FasthepSink]:
    """A sink of a function. Raises `bad-plugin` where nothing, or something else, is said of it."""
    hint = "write a class derived from cenote.analysis.sinks.interface.Sink"
    return described_as(FasthepSink, function, name, kind="sink", what=what, hint=hint, description=description)
