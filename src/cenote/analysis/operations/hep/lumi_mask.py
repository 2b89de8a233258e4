"""The operation `hep.lumi_mask`: events of good runs, by a list of luminosity sections."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import ClassVar, Self
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from pydantic import AliasChoices, Field

from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.evaluation import every_value, refuse_existing
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.lookup import LookupOperation
from cenote.common import errors
from cenote.common.values import dataclass

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _GoodSections:
    """Ranges of sections in order, none touching the next: (run, first) and (run, last) as one number each."""

    first: Numbers
    last: Numbers

    def hold(self, keys: Numbers) -> NDArray[np.bool_]:
        """Whether each is in one of the ranges."""
        at = np.searchsorted(self.first, keys, side="right") - 1
        found: NDArray[np.bool_] = (
            (at >= 0) & (keys <= self.last[at]) if len(self.last) else np.zeros(len(keys), np.bool_)
        )
        return found


class LumiMask(LookupOperation[_GoodSections]):
    """Keeps events whose run and luminosity section a good-run list has; or flags them."""

    example: ClassVar[str] = """
    - id: Certified
      op: hep.lumi_mask
      applies_to: {eventtype: data}
      params: {file: golden.json}
    """

    file: str = Field(validation_alias=AliasChoices("file", "path"))
    """A file beside the workflow: JSON, run → list of first and last sections, `{"273158": [[1, 1279]]}`; or XML, as
    ATLAS's good-run lists are."""
    run_column: str = Field("run", validation_alias=AliasChoices("run", "run_column"))
    """The column with the number of the run."""
    lumi_column: str = Field("luminosityBlock", validation_alias=AliasChoices("lumi", "lumi_column"))
    """The column with the number of the section."""
    output: str | None = None
    """A column to add instead of dropping events: true where the list has the section."""

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `column-clash` where the flag is there already."""
        if self.output is not None:
            refuse_existing(self.output, columns, self.stage)
        return super().resolve(columns)

    def reads(self) -> Collection[str]:
        """Run and section."""
        return (self.run_column, self.lumi_column)

    def adds(self) -> Collection[str]:
        """The flag, if one is asked for."""
        return () if self.output is None else (self.output,)

    def run(self, events: Events) -> Result:
        """Look every event up."""
        run, lumi = (every_value(events[name], f"column '{name}'").astype(np.int64) for name in self.reads())
        mask = self.contents.hold(_keys(run, lumi))
        return Result(events.where(mask) if self.output is None else events.with_columns({self.output: mask}))

    def read(self, path: Path) -> _GoodSections:
        """The ranges of the list, joined where they touch."""
        try:
            text = path.read_bytes()
            ranges = _in_xml(text) if text.lstrip().startswith(b"<") else _in_json(text)
        except (ValueError, TypeError, KeyError, AttributeError, ElementTree.ParseError) as problem:
            words = f"{self.file} is not a list of good runs"
            hint = 'as JSON `{"run": [[first, last], …]}` is expected, as XML a LumiRangeCollection'
            raise errors.error(errors.BAD_INPUT, words, hint=hint) from problem
        ends = np.array(sorted((_keys(run, first), _keys(run, last)) for run, first, last in ranges), np.int64)
        joined: list[list[int]] = []
        for first, last in ends.reshape(-1, 2).tolist():
            if joined and first <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], last)
            else:
                joined.append([first, last])
        table = np.array(joined, np.int64).reshape(-1, 2)
        return _GoodSections(table[:, 0].copy(), table[:, 1].copy())


def _in_json(text: bytes) -> list[tuple[int, int, int]]:
    """Run, first and last section of each range."""
    written = json.loads(text)
    return [(int(run), int(first), int(last)) for run, sections in written.items() for first, last in sections]


def _in_xml(text: bytes) -> list[tuple[int, int, int]]:
    """The same of a list as ATLAS has them; of several named ones in a file, all count."""
    root = ElementTree.fromstring(text)  # expat takes no entities from elsewhere, and ends a flood of them
    if root.tag != "LumiRangeCollection":
        raise ValueError(root.tag)
    return [
        (int(runs.findtext("Run", "")), int(found.attrib["Start"]), int(found.attrib["End"]))
        for runs in root.iter("LumiBlockCollection")
        for found in runs.iter("LBRange")
    ]


def _keys(run: Numbers | int, lumi: Numbers | int) -> Numbers:
    """Run and section as one number, in their order."""
    found: Numbers = np.asarray(run, np.int64) * 2**32 + np.asarray(lumi, np.int64)
    return found
