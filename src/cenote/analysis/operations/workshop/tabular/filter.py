"""The operation `workshop.tabular.filter`: `filter` under the name that FAST-HEP's workshop has for it."""

from __future__ import annotations

from typing import ClassVar

from cenote.analysis.operations.filter import Filter


class TabularFilter(Filter):
    """The same as `filter`."""

    example: ClassVar[str] = """
    - id: Slow
      op: workshop.tabular.filter
      params: {expr: "(speed > 10) & (speed < 30)"}
    """
