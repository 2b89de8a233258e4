"""Show what variations add to a run beside the stages that they vary: one row for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from cenote.runs.summary import ProductRecord, StageRecord
from cenote.text import with_variations


def stages_for_people(stages: Sequence[StageRecord]) -> list[tuple[str, StageRecord]]:
    """A stage and its variations as one, in words, with the time of all; variations that run in other tasks than their
    stage are a row of their own."""
    alike: dict[tuple[str, int | None], list[StageRecord]] = {}
    for stage in stages:
        alike.setdefault((stage.variation_of or stage.id, stage.segment), []).append(stage)
    found: list[tuple[str, StageRecord]] = []
    for (name, _), group in alike.items():
        first = next((stage for stage in group if not stage.variation), group[0])
        words = with_variations(name, len({stage.variation for stage in group if stage.variation}))
        found.append((words, structs.replace(first, seconds=sum(stage.seconds for stage in group))))
    return found


def products_for_people(
    products: Sequence[ProductRecord], stages: Sequence[StageRecord]
) -> list[tuple[ProductRecord, int]]:
    """Products of the stages of the file, each with how many variations of it there are as well."""
    varied = {stage.id: stage.variation_of for stage in stages if stage.variation}
    counts: dict[str, int] = {}
    for product in products:
        if product.stage in varied:
            counts[varied[product.stage]] = counts.get(varied[product.stage], 0) + 1
    return [(product, counts.get(product.name, 0)) for product in products if product.stage not in varied]
