"""State how candidates made of several objects are selected, sorted and kept, and add their four-vectors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from cenote.expressions.arrays import Column
from cenote.expressions.expression import ConditionText, ExpressionText
from cenote.expressions.kinematics import invariant_mass, momentum_x, momentum_y, momentum_z, pseudorapidity
from cenote.language.schema.forms import OneOrMany
from cenote.names import listed
from cenote.operations.support.new_columns import refuse_existing
from cenote.plugins.settings import Settings

FOUR_VECTOR = ("pt", "eta", "phi", "mass")
"""The fields that say where an object goes, and how heavy it is."""

AllConditions = Annotated[tuple[ConditionText, ...], OneOrMany()]
"""Conditions that must all hold: one, or a list."""


def without_dots(names: tuple[str, ...]) -> tuple[str, ...]:
    """These names, if each is that of a field alone; a settings error otherwise."""
    if dotted := next((name for name in names if "." in name), None):
        raise PydanticCustomError("bad_field", "'{name}' must be a field's name without dots", {"name": dotted})
    return names


FieldNames = Annotated[tuple[str, ...], OneOrMany(), Field(min_length=1), AfterValidator(without_dots)]
"""Names of fields, without the name of their collection."""


def of_candidate(names: tuple[str, ...], known: Collection[str]) -> tuple[str, ...]:
    """These names, if a candidate has all of them; a settings error otherwise."""
    if odd := next((name for name in names if name not in known), None):
        raise PydanticCustomError(
            "bad_field", "a candidate has no '{name}', only {known}", {"name": odd, "known": listed(known)}
        )
    return names


class CandidateOrder(Settings):
    """The order of candidates; equal ones stay as they were."""

    by: ExpressionText | None = None
    """An expression of the candidate's own fields."""
    order: Literal["ascending", "descending"] = "ascending"
    """Which come first: `ascending` puts the smallest first."""


def sum_of_two(one: Collection[Column], other: Collection[Column]) -> dict[str, Column]:
    """The four-vector of two objects together; of each pt, eta, phi and mass are given, as long arrays."""
    (pt_1, eta_1, phi_1, _), (pt_2, eta_2, phi_2, _) = one, other
    with np.errstate(all="ignore"):  # along the beam the pseudorapidity is infinite
        px = momentum_x(pt_1, phi_1) + momentum_x(pt_2, phi_2)
        py = momentum_y(pt_1, phi_1) + momentum_y(pt_2, phi_2)
        pz = momentum_z(pt_1, eta_1) + momentum_z(pt_2, eta_2)
        return {
            "pt": np.sqrt(px**2 + py**2),
            "eta": pseudorapidity(px, py, pz),
            "phi": np.arctan2(py, px),
            "mass": invariant_mass(*one, *other),
        }


def refuse_all_existing(names: Collection[str], columns: Collection[str], stage: str) -> None:
    """Raises `column-clash` for the first of these that is there already."""
    for name in names:
        refuse_existing(name, columns, stage)
