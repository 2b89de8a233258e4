"""Define what a probe of a pool found: a verdict on each question, in words."""

from __future__ import annotations

from typing import Literal

from cenote.common.text import format_age
from cenote.common.values import dataclass

ProbeVerdict = Literal["ok", "warning", "problem"]
_BAD_TO_GOOD: tuple[ProbeVerdict, ...] = ("problem", "warning", "ok")


@dataclass(frozen=True)
class Finding:
    """What was found about one question."""

    question: str
    """`network`, `packages`, `data`, …"""
    verdict: ProbeVerdict
    words: str
    hint: str = ""
    """What to do about it."""
    lines: tuple[str, ...] = ()
    """What the job wrote last."""
    of_workflow: bool = False
    """Whether it says nothing about other workflows on the same pool."""


@dataclass(frozen=True)
class Probed:
    """The last probe of a pool."""

    at: float
    """Seconds since 1970."""
    workflow: str
    """The file that it was made for."""
    host: str = ""
    """The node; empty when the job never ran."""
    findings: tuple[Finding, ...] = ()

    @property
    def verdict(self) -> ProbeVerdict:
        """The worst of all."""
        return worst(self.findings)

    @property
    def troubles(self) -> tuple[Finding, ...]:
        """What is not well, problems first."""
        return tuple(one for verdict in _BAD_TO_GOOD[:2] for one in self.findings if one.verdict == verdict)

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What keeps workers from working."""
        return tuple(one for one in self.findings if one.verdict == "problem")


def in_a_sentence(pool: str, probe: Probed, *, now: float) -> str:
    """`the last probe of 'gpu', 2h ago on node07: network: does not reach the driver`."""
    where = f" on {probe.host}" if probe.host else ""
    found = "; ".join(f"{finding.question}: {finding.words}" for finding in probe.troubles)
    return f"the last probe of '{pool}', {format_age(now - probe.at)}{where}: {found or 'no problems'}"


def worst(findings: tuple[Finding, ...]) -> ProbeVerdict:
    """`ok` where there is nothing to find."""
    found = {finding.verdict for finding in findings}
    return next((verdict for verdict in _BAD_TO_GOOD if verdict in found), "ok")
