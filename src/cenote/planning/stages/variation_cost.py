"""Put in words what variations cost: which stages they share with the nominal analysis, and which run again."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.common.text import first_to_last, listed, plural
from cenote.language.workflow import Workflow

MOST_VARIATIONS = 5
"""Lines of groups of variations."""


def cost_of_variations(workflow: Workflow) -> Iterator[str]:
    """How many there are, and for which of them stages run again; nothing for a workflow without variations.

    The workflow is the plan's: it has the stages that variations add.
    """
    if workflow.systematics is None:
        return
    added = [stage for stage in workflow.stages if stage.varied is not None]
    written = len(workflow.stages) - len(added)
    again = {stage.varied.stage for stage in added if stage.varied is not None}
    variations = [variation.name for variation in workflow.systematics.variations]
    shared = f"{written - len(again)} of {plural(written, 'stage')} shared"
    repeated = f", {len(again)} run again, {plural(len(added), 'time')} in all" if added else ""
    yield f"{plural(len(variations), 'variation')} in one pass over the data: {shared}{repeated}"
    filled = {name for stage in workflow.stages if stage.fillings for name in stage.fillings.labels}
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for name in (name for name in variations if name in filled):  # a warning names those without effect
        own = [stage.varied for stage in added if stage.varied is not None and stage.varied.variation == name]
        beside = tuple(dict.fromkeys(one.stage for one in own if one.beside))
        cloned = tuple(dict.fromkeys(one.stage for one in own if not one.beside))
        groups.setdefault((beside, cloned), []).append(name)
    for (beside, cloned), names in list(groups.items())[:MOST_VARIATIONS]:
        words = [f"{first_to_last(beside)} beside the nominal events"] if beside else []
        words += [f"{first_to_last(cloned)} on events of their own"] if cloned else []
        yield f"{listed(names)}: {'; '.join(words) or 'histograms are filled again, nothing else'}"
