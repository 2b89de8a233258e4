"""The operation `hep.build_pairs`: candidates of two objects each, with their four-vectors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator

from cenote.analysis.expressions.combinations import combined
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.object_rows import (
    FOUR_VECTOR,
    AllConditions,
    CandidateOrder,
    FieldNames,
    ObjectRows,
    of_candidate,
    one_after_the_other,
    refuse_all_existing,
    rows_of,
    sum_of_two,
)
from cenote.language.plugins.settings import Settings
from cenote.language.schema.forms import OneOrMany

_MEMBERS = ("lepton_1_", "lepton_2_")


class PairKind(Settings):
    """Which pairs are made: each of two different objects, once."""

    unordered: Literal[True] = True
    """(a, b) and (b, a) are one pair."""
    distinct_objects: Literal[True] = True
    """No object is paired with itself."""


class PairSelection(Settings):
    """What pairs must fulfil."""

    pair: AllConditions = ()
    """Conditions on `lepton_1_<field>` and `lepton_2_<field>`."""
    candidate: AllConditions = ()
    """Conditions on the `pt`, `eta`, `phi` and `mass` of both together."""


class PairFields(Settings):
    """Which columns are added."""

    candidate: FieldNames
    """Of both together: `pt`, `eta`, `phi`, `mass`, as `<output>_Z_<field>`."""
    constituents: FieldNames
    """Fields of each object, as `<output>_lepton_1_<field>` and `<output>_lepton_2_<field>`."""

    @field_validator("candidate")
    @classmethod
    def _of_four_vectors(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return of_candidate(names, FOUR_VECTOR)


class BuildPairs(Operation):
    """Pairs every two objects of one or several collections, and counts the candidates in `n<output>_Z`.

    The objects have `pt`, `eta`, `phi` and `mass`. Names in conditions that are no fields are columns of the event.
    """

    example: ClassVar[str] = """
    - id: Pairs
      op: hep.build_pairs
      params:
        collections: [Muon]
        output: Pair
        selection: {pair: ["lepton_1_charge != lepton_2_charge"], candidate: ["mass > 60", "mass < 120"]}
        sort: {by: "abs(mass - 91.2)"}
        keep: {candidate: [pt, mass], constituents: [pt, charge]}
    """
    names_are_columns: ClassVar[bool] = False

    collections: Annotated[tuple[str, ...], OneOrMany(), Field(min_length=1)]
    """Where the objects come from; those of several collections are put one after the other."""
    output: str
    """How the names of the new columns begin."""
    pair: PairKind = PairKind()
    """Which pairs are made."""
    selection: PairSelection = PairSelection()
    """What pairs must fulfil."""
    sort: CandidateOrder | Literal[False] | None = None
    """`{by, order}`; by default pairs come in the order of their objects."""
    keep: PairFields
    """Which columns are added."""

    @property
    def _fields(self) -> tuple[str, ...]:
        """What is read of each object."""
        named = [
            name.removeprefix(member)
            for name in self.names_in(*self.selection.pair)
            for member in _MEMBERS
            if name.startswith(member)
        ]
        return tuple(dict.fromkeys([*FOUR_VECTOR, *self.keep.constituents, *named]))

    def _of_events(self) -> tuple[str, ...]:
        """Names in conditions that are no fields."""
        by = self.sort.by if isinstance(self.sort, CandidateOrder) else None
        of_pairs = (name for name in self.names_in(*self.selection.pair) if not name.startswith(_MEMBERS))
        of_candidates = (name for name in self.names_in(*self.selection.candidate, by) if name not in FOUR_VECTOR)
        return (*of_pairs, *of_candidates)

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `column-clash` where a new column is there already."""
        refuse_all_existing(self.adds(), columns, self.stage)
        return super().resolve(columns)

    def reads(self) -> Collection[str]:
        """Four-vectors, fields that are kept, and what conditions name."""
        fields = (f"{collection}_{name}" for collection in self.collections for name in self._fields)
        return tuple(dict.fromkeys([*fields, *self._of_events()]))

    def adds(self) -> Collection[str]:
        """The fields that are kept, and the number of candidates."""
        members = (f"{self.output}_{member}{name}" for member in _MEMBERS for name in self.keep.constituents)
        return (*(f"{self.output}_Z_{name}" for name in self.keep.candidate), *members, f"n{self.output}_Z")

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Pair, select, add up, select again and sort."""
        objects = one_after_the_other([rows_of(events, name, self._fields) for name in self.collections])
        pairs = self._pairs(objects).chosen(self.selection.pair)
        vectors = [[pairs.fields[f"{member}{name}"] for name in FOUR_VECTOR] for member in _MEMBERS]
        candidates = pairs.with_fields(sum_of_two(*vectors)).chosen(self.selection.candidate)
        if isinstance(self.sort, CandidateOrder) and self.sort.by is not None:
            candidates = candidates.in_order(self.sort.by, ascending=self.sort.order == "ascending")
        added = candidates.columns(f"{self.output}_Z", self.keep.candidate)
        for member in _MEMBERS:
            added |= candidates.columns(f"{self.output}_{member.rstrip('_')}", self.keep.constituents, member + "{}")
        return Result(events.with_columns({**added, f"n{self.output}_Z": candidates.counts}))

    def _pairs(self, objects: ObjectRows) -> ObjectRows:
        pairs = combined(objects.counts, 2)
        fields = {
            f"{member}{name}": values[chosen]
            for member, chosen in zip(_MEMBERS, pairs.positions, strict=True)
            for name, values in objects.fields.items()
        }
        return ObjectRows(fields, pairs.counts, objects.events)
