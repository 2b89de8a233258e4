"""Keep which columns are available after a stage, sharing memory along a chain of stages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from cenote.language.systematics import is_twin


class Available(Mapping[str, str]):
    """Column → the stage that defined it, in the order they came to be. A change gives a new value.

    Thousands of stages that each add a column share one log, and differ in how much of it they see.
    """

    def __init__(self, log: dict[str, tuple[int, str]], limit: int, plain: Available | None = None) -> None:
        self._log = log
        self._limit = limit
        self._plain = plain

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
        nominal = [name for name in names if not is_twin(name)]
        varied = self._plain is not None or len(nominal) < len(names)
        return Available(log, len(log), self.without_twins().with_added(nominal, definer) if varied else None)

    def only(self, names: Collection[str]) -> Available:
        """With these columns and no others."""
        kept = [name for name in self if name in names]
        plain = None if self._plain is None else self._plain.only(names)
        return Available({name: (at, self[name]) for at, name in enumerate(kept)}, len(kept), plain)

    def without_twins(self) -> Available:
        """Those that are no variation's, beside nominal ones."""
        return self if self._plain is None else self._plain

    def joined(self, other: Available) -> Available:
        """With the other's columns too; its definitions win."""
        merged = {**self, **other}
        varied = self._plain is not None or other._plain is not None
        plain = self.without_twins().joined(other.without_twins()) if varied else None
        return Available({n: (at, definer) for at, (n, definer) in enumerate(merged.items())}, len(merged), plain)
