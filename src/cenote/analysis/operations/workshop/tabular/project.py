"""The operation `workshop.tabular.project`: `project` under the name that FAST-HEP's workshop has for it."""

from __future__ import annotations

from typing import ClassVar

from cenote.analysis.operations.project import Project


class TabularProject(Project):
    """The same as `project`."""

    example: ClassVar[str] = """
    - id: Narrow
      op: workshop.tabular.project
      params: {fields: [speed, hour]}
    """
