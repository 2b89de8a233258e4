"""Keep which columns are available after a stage, sharing memory along a chain of stages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice

from cenote.language.systematics import is_twin


class Available(Mapping[str, str]):
    """Column → the stage that defined it, in the order they came to be. A change gives a new value.

    Thousands of stages that each add a column share one log, and differ in how much of it they see.
    """

    def __init__(self, log: dict[str, tuple[int, str]], limit: int) -> None:
        self._log = log
        self._limit = limit

    @classmethod
    def of(cls, names: Iterable[str], definer: str) -> Available:
        """These columns, all from one place."""
        log = {name: (position, definer) for position, name in enumerate(dict.fromkeys(names))}
        return cls(log, len(log))

    def __getitem__(self, name: str) -> str:
        position, definer = self._log[name]
        if position >= self._limit:
            raise KeyError(name)
        return definer

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._log and self._log[name][0] < self._limit

    def __iter__(self) -> Iterator[str]:
        return islice(self._log, self._limit)

    def __len__(self) -> int:
        return self._limit

    def with_added(self, names: Collection[str], definer: str) -> Available:
        """With these columns added last (replaced ones move to the end)."""
        if not names:
            return self
        if self._limit == len(self._log) and not any(name in self._log for name in names):
            log = self._log
        else:
            log = {}
            for name in self:
                if name not in names:
                    log[name] = (len(log), self[name])
        for name in dict.fromkeys(names):
            log[name] = (len(log), definer)
        return Available(log, len(log))

    def only(self, names: Collection[str]) -> Available:
        """With these columns and no others."""
        kept = [name for name in self if name in names]
        return Available({name: (at, self[name]) for at, name in enumerate(kept)}, len(kept))

    def without_twins(self) -> Collection[str]:
        """Those that are no variation's, beside nominal ones."""
        return [name for name in self if not is_twin(name)] if self._has_twins else self

    @cached_property
    def _has_twins(self) -> bool:
        return any(map(is_twin, self))

    def joined(self, other: Available) -> Available:
        """With the other's columns too; its definitions win."""
        merged = {**self, **other}
        return Available({n: (at, definer) for at, (n, definer) in enumerate(merged.items())}, len(merged))
