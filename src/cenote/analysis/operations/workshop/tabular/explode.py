"""The operation `workshop.tabular.explode`: `explode` under the name that FAST-HEP's workshop has for it."""

from __future__ import annotations

from typing import ClassVar

from cenote.analysis.operations.explode import Explode


class TabularExplode(Explode):
    """The same as `explode`."""

    example: ClassVar[str] = """
    - id: Rows
      op: workshop.tabular.explode
      params: {fields: [Muon_pt], keep_fields: [MET_pt]}
    """
