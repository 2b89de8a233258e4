"""The `diagnostics` modifier: what goes into a stage and what comes out of it, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from cenote.analysis.modifiers.interface import Modifier, Run, StageCall
from cenote.analysis.modifiers.support.column_facts import ColumnFacts, facts_by_name
from cenote.analysis.modifiers.support.measures import Measure
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Events
from cenote.common.text import listed


class Diagnostics(Modifier):
    """Looks at every value of the columns that the stage reads (`in MET_pt`) and adds (`out score`): their type, how
    many values there are, how many are NaN, infinite or missing, how many lists are empty, and the range. It takes
    about as long as reading all of these values once or twice."""

    example: ClassVar[str] = """
    - id: Odd
      op: custom.odd
      execution: {modifiers: [diagnostics]}
    """

    why_not_compiled: ClassVar[str] = "looks at the values before and after it"
    measures: ClassVar[Mapping[str, Measure]] = {
        "events_in": Measure("Events in"),
        "events_out": Measure("Events out"),
        "type": Measure("Type", "words"),
        "values": Measure("Values"),
        "bytes": Measure("Size", unit="bytes"),
        "nan": Measure("NaN"),
        "infinite": Measure("Infinite"),
        "missing": Measure("Missing"),
        "empty": Measure("Empty lists"),
        "least": Measure("Smallest", "least"),
        "most": Measure("Largest", "most"),
    }

    warn: bool = False
    """Whether to warn of a column that the stage adds with NaN or infinite values although it reads none."""

    def around(self, run: Run, events: Events, call: StageCall) -> Result:
        """Look before and after."""
        before = dict(_facts(events, call.reads))
        result = run(events)
        after = dict(_facts(result.events, call.adds))
        call.note(events_in=events.size, events_out=result.events.size)
        for side, columns in (("in", before), ("out", after)):
            for name, facts in columns.items():
                call.note(f"{side} {name}", **facts.measures())
        if self.warn and not any(facts.odd for facts in before.values()):
            odd = [name for name, facts in after.items() if facts.odd]
            if odd:
                call.warn(f"stage '{call.stage}' reads no NaN or infinite values, and makes some in {listed(odd)}")
        return result


def _facts(events: Events, names: tuple[str, ...]) -> Iterator[tuple[str, ColumnFacts]]:
    for name in names:
        if name in events:
            yield from facts_by_name(name, events[name])
