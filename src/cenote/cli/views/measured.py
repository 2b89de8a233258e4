"""Word what the modifiers of a run measured: the most expensive stages of each, and where its files are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.text import Text

from cenote.analysis.modifiers.support.measures import Folded, Measure, Measured, MeasuredStage
from cenote.common.text import join_words, plural
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.summary import Summary
from cenote.execution.runs.view.measured import ModifierRecord, read_modifiers, worded
from cenote.planning.plan import StageSummary

MOST_STAGES = 3
"""Of each modifier; the report has them all."""
MOST_MEASURES = 4
"""Of each stage."""
_BY = "seconds"
"""The measure that tells which stages are the expensive ones, where a modifier has it."""
REUSED = "measured nothing, because all tasks of their stages were reused: `--fresh` or `--force STAGE` runs them again"


def measured_lines(summary: Summary, *, folder: Path) -> Iterator[Text]:
    """A few lines for each modifier that has something to tell."""
    modifiers = read_modifiers(RunFolder(folder), summary)
    fresh = [one for one in modifiers if not one.reused]
    width = max((len(one.name) for one in fresh), default=0) + 2
    for modifier in fresh:
        for position, words in enumerate(_words(modifier, folder)):
            yield Text.assemble(("  " + ("" if position else modifier.name).ljust(max(width, 10)), "bold"), words)
    if reused := [one.name for one in modifiers if one.reused]:
        yield Text.assemble((f"  {join_words(reused)} ", "bold"), REUSED)


def _words(modifier: ModifierRecord, folder: Path) -> Iterator[str]:
    told = [
        (stage, found, words)
        for stage, found in sorted(modifier.measured, key=lambda one: -_cost(one[1]))
        if (words := _measures(modifier.measures, found.values))
    ]
    for stage, found, words in told[:MOST_STAGES]:
        rows = f"; {plural(len(found.rows), 'row')} in the report" if found.rows else ""
        yield f"{stage}: {', '.join(words)}{rows}"
    if len(told) > MOST_STAGES:
        yield f"… and {plural(len(told) - MOST_STAGES, 'more stage')} in the report"
    own = RunFolder(folder).modifiers / modifier.name
    if len(modifier.files) == 1:
        yield str(folder / modifier.files[0])
    elif modifier.files:
        yield f"{plural(len(modifier.files), 'file')} in {own}"


def _cost(found: MeasuredStage) -> float:
    value = found.values.get(_BY, 0.0)
    return 0.0 if isinstance(value, dict) else value


def _measures(measures: Mapping[str, Measure], values: Mapping[str, Folded]) -> list[str]:
    """The first ones as the modifier declares them; zeros are no news."""
    shown = [(measures[name], values[name]) for name in measures if values.get(name)]
    return [f"{_lower(measure.title)} {worded(measure, value)}" for measure, value in shown[:MOST_MEASURES]]


def _lower(title: str) -> str:
    """Within a sentence; `CPU` stays as it is."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def call_lines(stage: StageSummary, found: Mapping[str, Measured]) -> Iterator[str]:
    """What the modifiers of a stage, or of those compiled together with it, measured in one task."""
    for modifier in stage.modifiers:
        measured = found.get(modifier.name)
        if measured is None:
            continue
        values = {name: {value: 1} if isinstance(value, str) else value for name, value in measured.values.items()}
        words = _measures(modifier.measures, values)
        if words:
            yield f"{modifier.name}: {', '.join(words)}"
