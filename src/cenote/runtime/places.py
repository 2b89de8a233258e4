"""Tell tasks where the columns that they read are in their files, as far as planning found it out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from cenote.plan.inputs.metadata import noted_places
from cenote.plan.plan import Partition, Plan, Segment, SourceStep
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.sources.interface import Source

TOGETHER = 256
"""Partitions whose places are looked up at once."""
KEPT = 8
"""So many times that: the places of ten thousand files would weigh down the driver."""


class PlacesOfColumns:
    """Looks them up in the cache of metadata, for the next partitions together."""

    def __init__(self, plan: Plan) -> None:
        self._partitions = plan.partitions
        self._sources: dict[int, Source] = {}
        self._known: OrderedDict[tuple[int, str, int], Mapping[int, bytes]] = OrderedDict()

    def of(self, segment: Segment, position: int) -> bytes:
        """For a task of this segment on the partition with this position; empty where it has to look itself."""
        step = segment.source
        if step is None or self._partitions[position].dataset not in step.columns:
            return b""
        key = (segment.index, segment.part, position // TOGETHER)
        if key not in self._known:
            start = key[2] * TOGETHER
            some = range(start, min(start + TOGETHER, len(self._partitions)))
            self._known[key] = self._looked_up(segment.index, step, some)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return self._known[key].get(position, b"")

    def _looked_up(self, segment: int, step: SourceStep, positions: Sequence[int]) -> dict[int, bytes]:
        if segment not in self._sources:
            self._sources[segment] = registry.make(PluginKind.SOURCE, step.kind, step.settings)
        source = self._sources[segment]
        if not source.finds_places():
            return {}
        alike: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
        for position in positions:
            partition = self._partitions[position]
            if partition.source == step.id and partition.dataset in step.columns:
                alike.setdefault((partition.url, partition.stamp, _columns(step, partition)), []).append(position)
        found: dict[int, bytes] = {}
        noted = noted_places([(source, step.kind, url, stamp) for url, stamp, _ in alike])
        for (_, _, columns), some, places in zip(alike, alike.values(), noted, strict=True):
            if places:
                ranges = [(self._partitions[position].start, self._partitions[position].stop) for position in some]
                found.update(zip(some, source.cut_places(places, columns, ranges), strict=True))
        return found


def _columns(step: SourceStep, partition: Partition) -> tuple[str, ...]:
    """As the file names them, those that it has."""
    names = (step.renames.get(name, name) for name in step.columns[partition.dataset])
    return tuple(dict.fromkeys(name for name in names if name not in partition.lacks))
