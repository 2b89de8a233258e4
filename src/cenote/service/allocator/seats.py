"""Know which workers of a pool have free slots, and which of them is the best to use next."""

from __future__ import annotations


class FreeSeats:
    """The workers of one pool that may get work."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        """Worker → all its slots, also of those that get nothing for now."""
        self.free = 0
        """Slots that could be used now."""
        self._free: dict[str, int] = {}
        """Workers that may get work → their free slots; below 0 where they came back with more than they can hold."""
        self._by_room: dict[int, dict[str, None]] = {}
        """Free slots → the workers that have so many, those first that have had them for longest."""

    @property
    def usable(self) -> tuple[str, ...]:
        """Workers that may get work, whether they have room or not."""
        return tuple(self._free)

    @property
    def usable_slots(self) -> int:
        """Slots of those, in use or free."""
        return sum(self.slots[worker] for worker in self._free)

    def __contains__(self, worker: str) -> bool:
        return worker in self._free

    def open(self, worker: str, taken: int) -> None:
        """A worker may get work from now on; so many of its slots are in use."""
        if worker in self._free:
            self._move(worker, None)
        self._move(worker, self.slots[worker] - taken)

    def close(self, worker: str) -> None:
        """It gets nothing more, for now."""
        if worker in self._free:
            self._move(worker, None)

    def forget(self, worker: str) -> None:
        """It is gone."""
        self.close(worker)
        self.slots.pop(worker, None)

    def take(self, worker: str) -> None:
        """One slot of it is used from now on."""
        if worker in self._free:
            self._move(worker, self._free[worker] - 1)

    def give_back(self, worker: str) -> None:
        """One slot of it is free again."""
        if worker in self._free:
            self._move(worker, min(self._free[worker] + 1, self.slots[worker]))

    def best(self) -> str | None:
        """The worker with the most room: work is spread."""
        room = max((room for room, workers in self._by_room.items() if workers), default=0)
        return next(iter(self._by_room[room])) if room > 0 else None

    def _move(self, worker: str, room: int | None) -> None:
        if (before := self._free.pop(worker, None)) is not None:
            self.free -= max(0, before)
            del self._by_room[before][worker]
        if room is not None:
            self.free += max(0, room)
            self._free[worker] = room
            self._by_room.setdefault(room, {})[worker] = None
