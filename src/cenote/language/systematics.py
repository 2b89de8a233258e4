"""Define what `systematics` says, and who wrote which setting of a pool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from cenote.common.errors import Place
from cenote.common.values import dataclass

# Say where a value stands in the document, and which layer gave it.


KeyPath = tuple[str | int, ...]
"""Where a value stands in the document: `("analysis", "stages", 2, "params", "expr")`."""


@dataclass(frozen=True)
class Origin:
    """Where an effective value came from."""

    layer: str
    """`built-in`, `site (desy)`, `profile mine.yaml`, `flow.yaml`, `command line`."""
    place: Place | None = None


NOMINAL = "nominal"
"""What the unchanged analysis is called along the axis of variations."""
VARIATION_AXIS = "variation"
"""The name of that axis."""
_TWIN = _CLONE = "@"
_DIRECTION = re.compile(r"^(?P<group>.+?)[_.-]?(?P<direction>up|down)$", re.IGNORECASE)


def twin_name(column: str, variation: str) -> str:
    """How a column is called that a variation changes, beside the nominal one. No expression can name it."""
    return f"{_TWIN}{variation}:{column}"


def is_twin(column: str) -> bool:
    """Whether a column is a variation's, beside the nominal one."""
    return column.startswith(_TWIN)


def clone_id(stage: str, variation: str) -> str:
    """What a stage is called that runs for a variation."""
    return f"{stage}{_CLONE}{variation}"


def stage_of(clone: str) -> str:
    """The stage of the file that runs for a variation under this name; another name is its own."""
    return clone.partition(_CLONE)[0]


def parts_of_name(name: str) -> tuple[str, str | None]:
    """`jes_up`, `jesUp` → (`jes`, `up`); any other name has no direction."""
    found = _DIRECTION.match(name)
    return (found["group"], found["direction"].lower()) if found else (name, None)


@dataclass(frozen=True)
class VariationSide:
    """Which side of what a variation is: `jes_up` is the upper side of `jes`."""

    group: str
    direction: str | None = None
    """`up` or `down`; None for a variation without a counterpart."""


def sides_by_group(names: Iterable[str], known: Mapping[str, VariationSide]) -> dict[str, dict[str, VariationSide]]:
    """Variations that belong together: one parameter of a fit each. What is not `known` is told by its name.

    A group with two variations of one direction has several parameters, which go by the names of the variations.
    """
    sides = {name: known.get(name) or VariationSide(*parts_of_name(name)) for name in names}
    taken = [(side.group, side.direction) for side in sides.values() if side.direction]
    several = {group for group, direction in taken if taken.count((group, direction)) > 1}
    found: dict[str, dict[str, VariationSide]] = {}
    for name, side in sides.items():
        key = parts_of_name(name)[0] if side.group in several else side.group
        found.setdefault(key, {})[name] = side
    return found


@dataclass(frozen=True)
class VariedDatasets:
    """Which datasets a variation changes; empty means all."""

    eventtypes: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variation:
    """One variation of the analysis: an entry of `systematics.variations`, its matrix written out."""

    name: str
    group: str
    """What it belongs to: `jes_up` and `jes_down` belong to `jes`."""
    direction: str | None = None
    """`up` or `down`; None for a variation without a counterpart."""
    applies_to: VariedDatasets = VariedDatasets()
    requires: tuple[str, ...] = ()
    factors: tuple[str, ...] = ()
    """Expressions that multiply the weight of every weighted histogram."""
    replace: Mapping[str, str] = field(default_factory=dict)
    """Column → the column to read instead."""
    datasets: Mapping[str, str] = field(default_factory=dict)
    """Dataset → the dataset whose events take its place."""
    anchor: str | None = None
    """The stage whose settings change."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """All settings of that stage, as they are in this variation."""
    stop_before: tuple[str, ...] = ()
    """Stages that do not see it, nor do those after them."""
    export: Mapping[str, str] = field(default_factory=dict)
    """Name that those stages know it by → column of the variation."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    path: KeyPath = ()
    """Empty for one of a profile."""
    place: Place | None = None

    @property
    def side(self) -> VariationSide:
        """Which side of what it is."""
        return VariationSide(self.group, self.direction)

    @property
    def changes_stages(self) -> bool:
        """Whether it changes more than where events come from."""
        return bool(self.factors or self.replace or self.anchor)


@dataclass(frozen=True)
class Systematics:
    """All variations of a workflow."""

    variations: tuple[Variation, ...] = ()
    cutflows: bool = False
    """Whether there is a cutflow for every variation that changes a selection."""


@dataclass(frozen=True)
class Shift:
    """One more filling of a histogram, from the same events."""

    label: str
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column → the column that is read instead."""
    factors: tuple[str, ...] = ()
    params: Mapping[str, Any] | None = None
    """The settings of the stage, where the variation changes them."""
    datasets: frozenset[str] = frozenset()
    """Which datasets are filled so."""


@dataclass(frozen=True)
class Fillings:
    """How a histogram is filled along its axis of variations."""

    labels: tuple[str, ...]
    """The categories of the axis."""
    label: str | None = None
    """The only one that is filled, where a stage runs for a variation alone."""
    factors: tuple[str, ...] = ()
    """What the weight is multiplied with there."""
    shifts: tuple[Shift, ...] = ()
    instead: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Dataset that stands in for another → the variations that it is filled for."""
    varied: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Variation → the datasets that it changes; for all others it has what is nominal."""

    def unvaried(self, dataset: str) -> list[str]:
        """The variations that do not change a dataset."""
        return [label for label, datasets in self.varied.items() if dataset not in datasets]


@dataclass(frozen=True)
class Varied:
    """How a stage runs for a variation."""

    variation: str
    stage: str
    """The stage that it is a variation of."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column → the column that it reads instead."""
    beside: bool = False
    """Whether what it computes goes along with the nominal events, under other names; else its events are its own."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Column that it adds beside the nominal ones → its name there, where that is no secret name of the variation."""

    def name_of(self, column: str) -> str:
        """What a column is called that it adds beside the nominal ones."""
        return self.names.get(column) or twin_name(column, self.variation)
