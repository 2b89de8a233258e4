"""Choose whose turn it is: by priority and fair share between groups and users, as the rules of the pool say, then in
order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from cenote.client.definitions import PoolDefinition
from cenote.client.rules import OTHERS, PoolRules, ShareRules
from cenote.service.allocator.waiting import Owner, OwnerLine, WaitingTasks

_SMALLEST_WEIGHT = 1e-9
"""A weight of nothing is taken for next to nothing: such users come last."""
_USUAL = PoolRules()

Able = Callable[[Owner, str], bool]
"""Whether an owner may get one more slot, for this task."""


@dataclass
class SlotsInUse:
    """Who uses how many slots of a pool."""

    groups: Counter[str] = field(default_factory=Counter)
    users: Counter[str] = field(default_factory=Counter)
    owners: Counter[Owner] = field(default_factory=Counter)

    def take(self, owner: Owner) -> None:
        """One more slot."""
        self.groups[owner.group] += 1
        self.users[owner.user] += 1
        self.owners[owner] += 1

    def give_back(self, owner: Owner) -> None:
        """One slot less."""
        self.groups[owner.group] -= 1
        self.users[owner.user] -= 1
        self.owners[owner] -= 1
        if not self.owners[owner]:
            del self.owners[owner]  # who uses none is not remembered

    def copy(self) -> SlotsInUse:
        """The same, for asking what if."""
        return SlotsInUse(self.groups.copy(), self.users.copy(), self.owners.copy())


def pool_rules(rules: ShareRules, pool: PoolDefinition) -> PoolRules:
    """The rules of a pool: its own, or those of the profile that it is made from."""
    return rules.pools.get(pool.name) or rules.pools.get(pool.profile) or _USUAL


def most_slots(rules: ShareRules | PoolRules, user: str) -> int | None:
    """How many slots a user may have at once; None for any number."""
    return rules.most_slots.get(user, rules.most_slots.get(OTHERS))


def may_have_more(rules: ShareRules | PoolRules, user: str, used: Mapping[str, int]) -> bool:
    """Whether a user may get one more slot; `used` are the slots that users have, in the pool or in all."""
    most = most_slots(rules, user)
    return most is None or used.get(user, 0) < most


def share_of(owner: Owner, used: SlotsInUse, rules: ShareRules) -> tuple[float, float]:
    """How much the group and the user have of a pool, by weight: who has least is next."""
    group = used.groups[owner.group] / max(rules.group_weights.get(owner.group, 1.0), _SMALLEST_WEIGHT)
    user = used.owners[owner] / max(rules.weights.get(owner.user, 1.0), _SMALLEST_WEIGHT)
    return group, user


def rounds(waiting: WaitingTasks, pool: PoolRules) -> Iterator[dict[Owner, list[OwnerLine]]]:
    """Owners that compete with each other → their lines, in order: by priority, or all at once."""
    if pool.scheduling == "priority":
        for priority in waiting.priorities:
            yield {owner: [line] for owner, line in waiting.levels[priority].items()}
        return
    found: dict[Owner, list[OwnerLine]] = {}
    for priority in waiting.priorities:
        for owner, line in waiting.levels[priority].items():
            found.setdefault(owner, []).append(line)
    if found:
        yield found


def next_task(waiting: WaitingTasks, used: SlotsInUse, rules: ShareRules, pool: PoolRules, able: Able) -> str | None:
    """Whose turn it is; None where all who wait have as much as they may."""
    for lines in rounds(waiting, pool):
        heads = {owner: line[0].first for owner, line in lines.items()}
        may = [owner for owner, (_, task) in heads.items() if able(owner, task)]
        if may:
            return heads[min(may, key=lambda owner: (*share_of(owner, used, rules), heads[owner]))][1]
    return None
