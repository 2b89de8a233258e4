"""Limit how often somebody may ask, and how often an address may try to sign in."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable

from cenote.common.values import dataclass

_MOST_KEYS = 10_000
"""That are remembered; the one that was longest unused is forgotten first."""


@dataclass(frozen=True)
class Rate:
    """So many a second, and so many at once."""

    a_second: float
    at_once: int


@dataclass(frozen=True)
class RequestLimits:
    """How much the service bears from those who come over the network, and from instances of tasks."""

    user: Rate = Rate(100.0, 400)
    address: Rate = Rate(200.0, 800)
    attempts: Rate = Rate(0.2, 20)
    """To sign in with what is worth nothing."""
    connections: int = 512
    """That are open at once."""
    newcomers: int = 128
    """Of these, or on their way to be, of those who have not signed in: for one more, the oldest is closed."""
    idle: float = 60.0
    """Seconds in which a connection must bring a whole request, and an upload its next part."""
    body: int = 1 << 20
    """Bytes of a request that is no upload."""
    header: int = 8190
    """Bytes of one header."""


class Buckets:
    """Each key may do something at a rate: a bucket that is filled by time, and emptied by use."""

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate, self._clock = rate, clock
        self._filled: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Key → what is in its bucket, and when that was so."""

    def wait(self, key: str) -> int:
        """Whole seconds until this key may again; 0 where it may now."""
        level, _ = self._level(key)
        return 0 if level >= 1 else math.ceil((1 - level) / self._rate.a_second)

    def take(self, key: str) -> int:
        """The same, and where it may now, that is used."""
        level, now = self._level(key)
        if level < 1:
            return math.ceil((1 - level) / self._rate.a_second)
        self._filled[key] = (level - 1, now)
        self._filled.move_to_end(key)
        if len(self._filled) > _MOST_KEYS:
            self._filled.popitem(last=False)
        return 0

    def _level(self, key: str) -> tuple[float, float]:
        now = self._clock()
        level, then = self._filled.get(key, (float(self._rate.at_once), now))
        return min(float(self._rate.at_once), level + (now - then) * self._rate.a_second), now


def neighbourhood(address: str) -> str:
    """What counts as one address: of IPv6 the network, which one machine has to itself."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return address
