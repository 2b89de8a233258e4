"""Collect what checking finds: problems, warnings, and parts that this version does not execute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cenote.common import errors
from cenote.common.errors import ErrorKind, Problem
from cenote.common.text import did_you_mean, listed, nearest
from cenote.language.systematics import KeyPath
from cenote.language.workflow import Unexecuted
from cenote.language.yaml.source import Located

MOST_HINTS = 100
"""Problems after which names that are not there are reported without those that are."""


@dataclass
class Findings:
    """A notebook for one document. Writing into it never stops the checking."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unexecuted: list[Unexecuted] = field(default_factory=list)
    plugins_failed: bool = False
    """Whether an own plugin could not be loaded, so that names may be missing for that reason."""

    def report(
        self,
        kind: ErrorKind,
        message: str,
        at: Located | None,
        *,
        details: Iterable[str] = (),
        hint: str | None = None,
        on_key: bool = False,
    ) -> None:
        """Note a problem with a value, or with the key it stands under."""
        place = (at.key_place if on_key else None) or at.place if at else None
        said_elsewhere = at is not None and place is None and at.layer != "built-in"
        where = f"{at.layer}: " if at is not None and said_elsewhere else ""
        self.problems.append(Problem(kind, where + message, place=place, details=tuple(details), hint=hint))

    def report_unknown(self, kind: ErrorKind, message: str, name: Located, known: Iterable[str], *, what: str) -> None:
        """Note a name that is not there, with those that are."""
        if len(self.problems) > MOST_HINTS:  # finding near names among thousands takes time, and who reads them?
            self.report(kind, message, name)
            return
        names = list(known)
        details = (f"{what}: {listed(names)}",)
        self.report(kind, message, name, details=details, hint=did_you_mean(name.text or "", names))

    def report_unknown_key(
        self, key: str, entry: Located, of: str, known: Iterable[str], *, belongs: str | None = None
    ) -> None:
        """Note a key that the language does not have there, and under which it belongs."""
        names = list(known)
        self.report(
            errors.UNKNOWN_KEY,
            f"there is no key '{key}' in {of}",
            entry,
            details=(f"keys: {listed(names, most=30)}",) if names else (),
            hint=f"it belongs under '{belongs}': indent it" if belongs else did_you_mean(key, names),
            on_key=True,
        )

    def add(self, problems: Iterable[Problem], at: Located | None) -> None:
        """Note problems that somebody else found, at this place unless they have their own."""
        self.problems += [problem.at(at.place if at else None) for problem in problems]

    def accept(self, what: str, path: KeyPath, *, matters: bool = True) -> None:
        """Note a part of the language that is correct but not executed yet."""
        self.unexecuted.append(Unexecuted(what, path, matters))

    def missing(self, key: str, of: str, at: Located | None) -> None:
        """Note a key that must be there, and the one that somebody may have written for it."""
        instead = nearest(key, at.mapping) if at is not None else None
        hint = f"did you mean '{key}' instead of '{instead}'?" if instead else None
        self.report(errors.MISSING_KEY, f"'{key}' is missing in {of}", at, hint=hint)
