"""Hold what looks closer at the calls of a stage: imported where the settings ask for it alone."""

from __future__ import annotations

from dataclasses import field

from cenote.modifiers.profile.allocations import Allocations
from cenote.modifiers.profile.flames import Flames
from cenote.modifiers.profile.functions import Functions
from cenote.values import dataclass


@dataclass(frozen=True)
class Tools:
    """What adds up the calls of one stage."""

    functions: Functions = field(default_factory=Functions)
    flames: Flames = field(default_factory=Flames)
    allocations: Allocations = field(default_factory=Allocations)
