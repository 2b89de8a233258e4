"""Add up by hand what workers and slots cost, item by item, to compare it with budgets."""

from __future__ import annotations

from dataclasses import dataclass

from allocation.agents import require
from cenote.language.schema.service import OTHERS, Budget, ShareRules
from cenote.service.allocator.messages import CalendarTurned

ROUNDING = 1e-6
LATE = 60.0
"""Seconds that an instance past its time limit may take to end."""


@dataclass
class _Item:
    """Something that costs."""

    account: tuple[str, str]
    rate: float
    """In a second."""
    since: float
    limit: float | None = None
    until: float | None = None

    def cost(self, begins: float, now: float) -> float:
        end = min(time for time in (self.until, self.limit, now) if time is not None)
        return self.rate * max(0.0, end - max(self.since, begins))


class Ledger:
    """What every pool and user has spent, in the span that their budget is for."""

    def __init__(self) -> None:
        self.rules = ShareRules()
        self._items: dict[object, _Item] = {}
        self._over: list[_Item] = []
        self._begins: dict[tuple[str, str], float] = {}
        self._spans: dict[str, float] = {}

    def begin(self, what: object, account: tuple[str, str], rate: float, at: float, limit: float | None) -> None:
        """Something costs from now on."""
        if what not in self._items:
            self._items[what] = _Item(account, rate, at, None if limit is None else at + limit + LATE)

    def end(self, what: object, at: float) -> None:
        """It is over."""
        if (item := self._items.pop(what, None)) is not None:
            item.until = at
            self._over.append(item)

    def change_rules(self, rules: ShareRules, at: float) -> None:
        """A budget of another span counts from now on."""
        before, self.rules = self.rules, rules
        for account in self._accounts():
            old, new = _budget(before, account), _budget(rules, account)
            if (old.per if old else None) != (new.per if new else None):
                self._begins[account] = at

    def turn(self, event: CalendarTurned) -> None:
        """Another day, or week."""
        turned = {per for per, span in event.spans.items() if self._spans.get(per) != span.since}
        self._spans = {per: span.since for per, span in event.spans.items()}
        for account in self._accounts():
            if (budget := _budget(self.rules, account)) is not None and budget.per in turned:
                self._begins[account] = self._spans[budget.per]

    def check(self, now: float) -> None:
        """No budget was passed."""
        for account in self._accounts():
            if (budget := _budget(self.rules, account)) is not None:
                begins = self._begins.get(account, 0.0)
                items = [item for item in (*self._items.values(), *self._over) if item.account == account]
                spent = sum(item.cost(begins, now) for item in items)
                require(spent <= budget.amount + ROUNDING, f"{account} spent {spent} of {budget.amount}")

    def _accounts(self) -> set[tuple[str, str]]:
        named = {("user", name) for name in ("ada", "bob", "cyd")} | {("pool", name) for name in self.rules.pools}
        return named | {item.account for item in (*self._items.values(), *self._over)}


def _budget(rules: ShareRules, account: tuple[str, str]) -> Budget | None:
    kind, name = account
    if kind == "user":
        return rules.budgets.get(name, rules.budgets.get(OTHERS))
    return rules.pools[name].budget if name in rules.pools else None
