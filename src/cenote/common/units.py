"""Turn amounts as people write them (`4GB`, `04:00:00`, `30m`) into bytes and seconds, and back."""

from __future__ import annotations

import re

_BYTES = {
    "b": 1,
    **{unit: 1000**power for power, units in enumerate(("k kb", "m mb", "g gb", "t tb"), 1) for unit in units.split()},
    **{unit: 1024**power for power, unit in enumerate(("kib", "mib", "gib", "tib"), 1)},
}
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)")
_COMPOUND = re.compile(r"(?:\d+(?:\.\d+)?[A-Za-z]+\s*)+")

MEMORY_FORMS = "write it as 4GB, 500MB, 16GiB, or a number of bytes from a million on"
_FEWEST_BYTES = 10**6
"""A smaller number without a unit is none of bytes: `memory: 4` means 4 GB to some, and 4 MB to Slurm."""
_ROUNDS_UP = 0.9995
"""Share of a unit that three digits show as one of it: 999.7 MB is 1 GB, not 1e+03 MB."""
TIME_FORMS = "write it as 30s, 10m, 4h, 1d, 1h30m, 04:00:00, or a number of seconds"


def parse_bytes(text: str | float) -> int:
    """`4GB` → 4000000000. Raises ValueError with the forms that are understood.

    Bits (`4Gb`) are refused rather than guessed at.
    """
    if isinstance(text, int | float) and not isinstance(text, bool):
        return _bytes_without_unit(float(text), str(text))
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{_as_written(text)} is not an amount of memory: {MEMORY_FORMS}")
    number, unit = match.groups()
    if len(unit) > 1 and unit.endswith("b") and unit != unit.lower():
        raise ValueError(f"{text!r}: '{unit}' means bits; did you mean '{number}{unit[:-1]}B'?")
    if not unit:
        return _bytes_without_unit(float(number), number)
    scale = _BYTES.get(unit.lower())
    if scale is None:
        raise ValueError(f"{text!r}: '{unit}' is not a unit of memory: {MEMORY_FORMS}")
    return _whole(float(number) * scale, MEMORY_FORMS)


def _bytes_without_unit(number: float, written: str) -> int:
    if 0 < number < _FEWEST_BYTES:
        raise ValueError(f"{written} has no unit: write {written}GB or {written}MB")
    return _whole(number, MEMORY_FORMS)


def parse_seconds(text: str | float) -> int:
    """`04:00:00`, `4h`, `1h30m` or `14400` → 14400. Raises ValueError with the forms that are understood."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return _whole(float(text), TIME_FORMS)
    written = str(text).strip()
    if clock := _CLOCK.fullmatch(written):
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if re.fullmatch(r"\d+:\d\d", written):
        raise ValueError(f"{text!r} could be minutes or hours: write 00:{written} or {written}:00")
    if written.replace(".", "", 1).isdigit():
        return _whole(float(written), TIME_FORMS)
    if not _COMPOUND.fullmatch(written):
        raise ValueError(f"{_as_written(text)} is not a time: {TIME_FORMS}")
    total = 0.0
    for number, unit in re.findall(r"(\d+(?:\.\d+)?)([A-Za-z]+)", written):
        scale = _SECONDS.get(unit.lower())
        if scale is None:
            raise ValueError(f"{text!r}: '{unit}' is not a unit of time: {TIME_FORMS}")
        total += float(number) * scale
    return _whole(total, TIME_FORMS)


def _as_written(value: object) -> str:
    return {"None": "nothing", "True": "true", "False": "false"}.get(repr(value), repr(value))


def _whole(number: float, forms: str) -> int:
    if not 0 <= number < 1e19:
        raise ValueError(f"{number:g} is out of range: {forms}")
    return round(number)


def format_bytes(amount: float) -> str:
    """4000000000 → `4 GB`."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if amount >= scale * _ROUNDS_UP:
            return _in_units(amount / scale, unit)
    return f"{amount:.0f} B"


def format_seconds(seconds: float) -> str:
    """7325 → `2h 2m`; two units at the most, so that it can be read at a glance."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    parts = [
        (whole // 86400, "d"),
        (whole % 86400 // 3600, "h"),
        (whole % 3600 // 60, "m"),
        (whole % 60, "s"),
    ]
    first = next(i for i, (amount, _) in enumerate(parts) if amount or i == 3)
    shown = [f"{amount}{unit}" for amount, unit in parts[first : first + 2] if amount]
    return " ".join(shown) or "0s"


def format_count(number: float) -> str:
    """1234567 → `1.23 M`."""
    for unit, scale, least in (("G", 1e9, _ROUNDS_UP), ("M", 1e6, _ROUNDS_UP), ("k", 1e3, 10)):
        if number >= scale * least:
            return _in_units(number / scale, unit)
    return f"{number:.0f}"


def _in_units(number: float, unit: str) -> str:
    return f"{max(number, 1):.3g} {unit}"
