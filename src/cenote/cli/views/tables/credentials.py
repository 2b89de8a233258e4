"""Lay out what is known of credentials: whose they are, for how long, and what is wrong; never what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cenote.cli.views.problems import problem_as_json
from cenote.cli.views.site_page import facts as fact_rows
from cenote.common.errors import NO_CREDENTIAL, Problem
from cenote.common.text import clock_time, plural
from cenote.common.units import format_seconds
from cenote.common.values import dataclass
from cenote.execution.credentials.interface import CredentialFacts


@dataclass(frozen=True)
class SeenCredential:
    """A credential as it is now."""

    type: str
    facts: CredentialFacts | None
    problems: tuple[Problem, ...]
    pools: tuple[str, ...] = ()
    """Whose workers get it; empty where no workflow asks for it."""
    renews: bool = False

    @property
    def missing(self) -> bool:
        """Whether there is none at all."""
        return any(problem.kind is NO_CREDENTIAL for problem in self.problems)

    @property
    def wrong(self) -> tuple[Problem, ...]:
        """What needs to be put right: that there is none matters only to a workflow that asks for it."""
        return () if self.missing and not self.pools else self.problems


def show_credentials(seen: Sequence[SeenCredential], console: Console, *, now: float) -> None:
    """Everything `cenote credentials` prints."""
    for one in seen:
        console.print(_heading(one))
        console.print(fact_rows(list(_rows(one, now))))
        if one.problems:
            console.print(_problems(one.problems, "problem" if one.wrong else "looked"))
        console.print()
    console.print(Text(in_short(seen), style="bold"), soft_wrap=True)


def in_short(seen: Sequence[SeenCredential]) -> str:
    """`2 credentials: 1 of them cannot be used`, and the like."""
    counted = [one for one in seen if one.pools or not one.missing]
    bad = [one for one in counted if one.wrong]
    if not counted:
        return "no credentials in the usual places" if seen else "no credentials: the workflow names none"
    count = plural(len(counted), "credential")
    if len(counted) == 1:
        return f"{count}: it {'cannot' if bad else 'can'} be used"
    return f"{count}: {len(bad)} of them cannot be used" if bad else f"{count}: all of them can be used"


def credentials_as_json(seen: Iterable[SeenCredential], *, now: float) -> list[dict[str, object]]:
    """What `--json` prints of each."""
    return [_as_json(one, now) for one in seen]


def _as_json(one: SeenCredential, now: float) -> dict[str, object]:
    facts = one.facts
    known = {
        "found": facts.found if facts else None,
        "subject": facts.subject if facts else None,
        "issuer": facts.issuer if facts else None,
        "begins": _iso(facts.begins if facts else None),
        "ends": _iso(facts.ends if facts else None),
        "seconds_left": round(facts.ends - now) if facts and facts.ends is not None else None,
        "details": dict(facts.details) if facts else {},
    }
    problems = [problem_as_json(problem) for problem in one.problems]
    return {"type": one.type, "pools": list(one.pools), **known, "renews": one.renews, "problems": problems}


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _heading(one: SeenCredential) -> Text:
    words, style = ("can be used", "green") if not one.problems else ("cannot be used", "red")
    if one.missing:
        words, style = "not found", "red" if one.wrong else "dim"
    whose = f" ({', '.join(one.pools)})" if one.pools else ""
    return Text.assemble((one.type, "bold"), (whose, "dim"), " ", (words, style))


def _rows(one: SeenCredential, now: float) -> Iterator[tuple[str, str]]:
    facts = one.facts
    if facts is None:
        return
    yield "  found", facts.found
    if facts.subject:
        yield "  subject", facts.subject
    if facts.issuer:
        yield "  issuer", facts.issuer
    if facts.ends is not None:
        at = clock_time(facts.ends, now=now)
        left = facts.ends - now
        yield "  ends", f"in {_amount(left)}, at {at}" if left > 0 else f"ended {_amount(-left)} ago, at {at}"
    if one.renews:
        yield "  renewed", "by a command"
    for name, value in facts.details.items():
        yield f"  {name}", value


def _amount(seconds: float) -> str:
    """In whole minutes, or seconds below two minutes."""
    return format_seconds(seconds // 60 * 60 if seconds >= 120 else seconds // 1)


def _problems(problems: Sequence[Problem], title: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, style="red" if title == "problem" else "dim")
    table.add_column(overflow="fold")
    for problem in problems:
        words = Text(f"{problem.place}: {problem.message}" if problem.place else problem.message)
        for line in problem.details:
            words.append(f"\n{line}", style="dim")
        if problem.hint:
            words.append("\nhint: ", style="cyan").append(problem.hint)
        table.add_row(f"  {title}", words)
    return table
