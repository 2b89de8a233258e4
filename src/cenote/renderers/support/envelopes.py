"""Sum up variations: how far they move each bin up and down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from cenote.language.systematics import NOMINAL, sides_by_group
from cenote.renderers.interface import DrawContext
from cenote.renderers.support.bins import Floats, Roles
from cenote.values import dataclass


@dataclass(frozen=True, eq=False)
class Envelope:
    """How far bins reach down and up from the nominal contents; both are zero or more."""

    down: Floats
    up: Floats

    def with_errors(self, errors: Floats) -> Envelope:
        """In quadrature with an uncertainty that is the same in both directions."""
        return Envelope(np.hypot(self.down, errors), np.hypot(self.up, errors))


def variations_of(histogram: object, roles: Roles) -> list[str]:
    """The variations of a histogram, the nominal one left out."""
    axes = getattr(histogram, "axes", ())
    return [] if roles.variation is None else [name for name in axes[roles.variation] if name != NOMINAL]


def envelope(nominal: Floats, varied: Mapping[str, Floats], context: DrawContext) -> Envelope | None:
    """The envelope of each group of variations (`jes_up` and `jes_down`), and all groups in quadrature; None without
    any variation. A variation without a counterpart is mirrored, as in the templates of fits."""
    if not varied:
        return None
    groups = sides_by_group(varied, context.sides).values()
    sides = [[varied[name] for name in group] for group in groups]
    sides = [[one, *(others or [mirrored(nominal, one)])] for one, *others in sides]
    moved = [[side - nominal for side in group] for group in sides]
    return Envelope(_in_quadrature(moved, -1.0), _in_quadrature(moved, 1.0))


def mirrored(nominal: Floats, varied: Floats, *, least: float = 0.0) -> Floats:
    """The other side of a variation without a counterpart; not less than nothing."""
    other: Floats = np.maximum(2 * nominal - varied, least)
    return other


def _in_quadrature(groups: Iterable[list[Floats]], sign: float) -> Floats:
    furthest = [np.max([sign * moved for moved in group], axis=0) for group in groups]
    total: Floats = np.sqrt(np.sum([np.square(np.maximum(moved, 0.0)) for moved in furthest], axis=0))
    return total
