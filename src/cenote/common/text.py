"""Word what commands, errors and reports all say: counts, amounts, ages, causes, lists, the nearest name."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Container, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from html import escape
from math import ceil
from typing import Protocol

from cenote.common.units import format_bytes, format_count, format_seconds

TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that change the direction of text."""
FAILURE_CAUSES = {
    "error": "raised an exception",
    "bad_input": "could not read its input",
    "changed_input": "found another input than was planned",
    "timeout": "exceeded its time limit",
    "lost": "lost its worker",
    "oom": "ran out of memory",
    "damaged": "read a damaged result",
    "internal": "hit an internal error of Cenote",
}
"""Cause of a failure → what the stage did."""
RUN_STATUSES = {
    "waiting": "has not started",
    "running": "is in progress",
    "unresponsive": "has a driver that does not answer",
    "cancelling": "is being cancelled",
    "cancelled": "was cancelled",
    "succeeded": "succeeded",
    "partial": "finished with part of the data",
    "failed": "failed",
    "interrupted": "was interrupted and has no driver",
    "unfinished": "has not ended, or was killed",
}
"""Status of a run → what the run did, after "the run"."""


_HALF_A_DAY = 12 * 3600


class HasAmounts(Protocol):
    """Resources of a worker, or of a task; None where nothing is said."""

    @property
    def cpus(self) -> float | None: ...
    @property
    def memory(self) -> int | None: ...
    @property
    def gpus(self) -> int | None: ...
    @property
    def disk(self) -> int | None: ...


def with_article(word: str) -> str:
    """`a sink`, `an operation`."""
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """`1 task`, `1,200 tasks`; `nouns` is for those that take more than an s."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def join_words(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def clock_time(at: float, *, now: float) -> str:
    """When something happens, as clocks of this machine show it: `03:10 CET` within 12 hours, else with the date."""
    form = "%H:%M %Z" if abs(at - now) < _HALF_A_DAY else "%Y-%m-%d %H:%M %Z"
    return datetime.fromtimestamp(at).astimezone().strftime(form)


def first_of(names: Sequence[str], *, most: int = 3) -> str:
    """`a, b, c and 4 more`."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def first_to_last(names: Sequence[str]) -> str:
    """`GoodMuons`, or `GoodMuons … DimuonPt` for a chain of stages."""
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"


def with_variations(name: str, variations: int) -> str:
    """`GoodMuons × 12 variations`: what belongs to a stage, and to as many variations of it."""
    return f"{name} × {plural(variations, 'variation')}" if variations else name


def compiled_together(stages: Sequence[str]) -> str:
    """`GoodMuons … DimuonPt (4 stages as one loop)`."""
    return f"{first_to_last(stages)} ({plural(len(stages), 'stage')} as one loop)"


@lru_cache(maxsize=10_000)
def format_amount(number: float, kind: str) -> str:
    """`8 CPUs`, `128 GB of memory`, `0.25 GPUs`, `no GPUs`."""
    if kind in ("memory", "disk"):
        return f"{format_bytes(number)} of {kind}"
    noun = kind.removesuffix("s").upper()
    digits = f"{number:.3g}" if number < 100 else f"{number:.0f}"
    return f"{digits} {noun}{'' if number == 1 else 's'}" if number else f"no {noun}s"


def format_amounts(amounts: HasAmounts) -> str:
    """`8 CPUs, 128 GB, 1 GPU, 10 GB of disk`; empty where nothing is stated."""
    parts = [format_amount(amounts.cpus, "cpus")] if amounts.cpus else []
    parts += [format_bytes(amounts.memory)] if amounts.memory else []
    parts += [format_amount(amounts.gpus, "gpus")] if amounts.gpus else []
    parts += [format_amount(amounts.disk, "disk")] if amounts.disk else []
    return ", ".join(parts)


def format_pools(pools: Iterable[str], *, shared: bool) -> str:
    """`gpu`, `gpu, then default`, or `gpu_a + gpu_b` where they share the work."""
    return (" + " if shared else ", then ").join(pools) or "none"


def with_last_lines(words: str, lines: str) -> str:
    """The words, and below them the last lines that a worker wrote, if there are any."""
    written = [f"    {line}" for line in lines.splitlines()]
    return "\n".join([words, *(["  what it wrote last:"] if written else []), *written])


def html_table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table for notebooks."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def format_rate(per_second: float | None) -> str:
    """`2.1 M/s`; empty while unknown."""
    return "" if per_second is None else f"{format_count(per_second)}/s"


def format_estimate(seconds: float | None) -> str:
    """`2m 10s`; empty while unknown. Whole seconds, because it is mostly a guess."""
    if seconds is None or seconds <= 0:
        return ""
    return f"{ceil(seconds)}s" if seconds < 60 else format_seconds(seconds)


def format_age(seconds: float) -> str:
    """`2h 5m ago`, in whole minutes."""
    return "just now" if seconds < 60 else f"{format_seconds(60 * (seconds // 60))} ago"


def is_one_line(text: str) -> bool:
    """Whether a terminal shows it as it is, in one line: no control characters, nothing that turns the direction."""
    return not any(unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") or one in TURNING for one in text)


# Find the name that somebody probably meant, and make names of columns, workers and files.


_MEANT_OTHERWISE = re.compile(r"^[^\w]|[^\w .+=@-]")
"""Characters of a name that some program would read as something else; a dash in front looks like an option."""
_VARIABLES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[*]?")
_TRUTHS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
"""Words that YAML 1.1 took for true and false; in YAML 1.2 they are text."""
_LONGEST = 80
"""Characters: what is made of a name must still be the name of a file."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to this one, or None when none is close."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(_folded(candidate), candidate)
    if _folded(name) in by_folded:
        return by_folded[_folded(name)]
    from difflib import get_close_matches  # for those who misspell something

    matches = get_close_matches(_folded(name), by_folded, n=1, cutoff=0.65)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint for an error, or None."""
    match = nearest(name, known)
    return f"did you mean '{match}'?" if match else None


def meant_as_truth(word: str) -> str | None:
    """A hint for a text that was meant as true or false, or None."""
    meant = _TRUTHS.get(word.lower())
    return f"did you mean `{meant}`?" if meant else None


def listed(names: Iterable[str], *, most: int = 12) -> str:
    """Names for a line of an error: sorted, and cut when there are too many to read."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:most])
    return f"{shown}, … ({len(ordered)} in all)" if len(ordered) > most else shown or "none"


def plain_name(name: str) -> str:
    """A name as a word that shells, batch systems and file systems leave as it is; most names are one already.

    What they give a meaning to becomes `_`, and a few letters then keep two such names apart: `50%` → `50_-5a0c`.
    """
    plain = _MEANT_OTHERWISE.sub("_", name).strip()[:_LONGEST]
    if plain == name:
        return name
    return f"{plain}-{hashlib.blake2b(name.encode(), digest_size=2).hexdigest()}"


def can_name_variables(pattern: str) -> bool:
    """Whether it names an environment variable, or with a `*` at its end all that begin so."""
    return _VARIABLES.fullmatch(pattern) is not None


def column_name(name: str, known: Container[str] = ()) -> str:
    """The column that people mean by `Muon.pt`: `Muon_pt`, unless one is called as it is written."""
    return name if name in known else name.replace(".", "_")


def worker_name(pool: str, number: int) -> str:
    """Of a worker of this pool, and of its files: `gpu-1`."""
    return f"{plain_name(pool)}-{number}"


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")
