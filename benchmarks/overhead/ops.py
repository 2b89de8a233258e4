"""The operation of this benchmark: as little as an operation can do and still have a result."""

from cenote import Events, operation


@operation("custom.count", reads=["x"], product="count", merge=sum)
def count(events: Events) -> int:
    """How many events there are."""
    return len(events)
