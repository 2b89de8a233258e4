"""Word why stages run again: a line for each, and no cause twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cenote.engine.messages import WhyRow
from cenote.plan.record import PlannedStage
from cenote.text import plural, with_variations

MOST_STAGES = 12
_MOST_CAUSES = 3


def causes_in_words(rows: Sequence[WhyRow]) -> dict[str, str]:
    """Stage → its causes; those that an earlier row has are said by its stage."""
    said: dict[tuple[str, ...], str] = {}
    found = {}
    for row in rows:
        if row.causes in said:
            found[row.stage] = f"as {said[row.causes]}"
        elif row.causes:
            said[row.causes] = row.stage
            own = [cause.removeprefix(f"{row.stage}: ") for cause in row.causes]
            more = [f"and {len(own) - _MOST_CAUSES:,} more"] if len(own) > _MOST_CAUSES else []
            found[row.stage] = "; ".join([*own[:_MOST_CAUSES], *more])
    return found


def lines_of_why(rows: Sequence[WhyRow], planned: Sequence[PlannedStage]) -> list[str]:
    """`Select: 12 of 36 tasks run: cut changed, "pt > 20" → "pt > 25"`, for each stage of the file that runs; a
    variation has no line of its own where its causes are those of its stage."""
    shown, variations = without_variations(rows, {stage.id: stage.variation_of for stage in planned})
    words = causes_in_words(shown)
    lines = [
        f"{with_variations(row.stage, variations[row.stage])}: {tasks_in_words(row)}"
        + (f": {words[row.stage]}" if row.stage in words else "")
        for row in shown[:MOST_STAGES]
    ]
    return lines + ([f"… and {plural(len(shown) - MOST_STAGES, 'more stage')}"] if len(shown) > MOST_STAGES else [])


def without_variations(
    rows: Sequence[WhyRow], variation_of: Mapping[str, str]
) -> tuple[list[WhyRow], Mapping[str, int]]:
    """Rows less those of variations that say the same as their stage's, and how many of them each stage has."""
    nominal = {row.stage: row.causes for row in rows}
    kept, more = list[WhyRow](), dict.fromkeys(nominal, 0)
    for row in rows:
        of = variation_of.get(row.stage, "")
        if of in nominal and nominal[of] == row.causes:
            more[of] += 1
        else:
            kept.append(row)
    return kept, more


def tasks_in_words(row: WhyRow) -> str:
    """`12 of 36 tasks run`, `36 tasks run`."""
    run = plural(row.run, "task")
    return f"{row.run:,} of {row.run + row.reused:,} tasks run" if row.reused else f"{run} run{'s' * (row.run == 1)}"
