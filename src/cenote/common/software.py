"""Compare the software of a worker with the driver's: what has to agree, and what may change numbers.

A worker does this before it reads anything from its driver, whatever both of them are: only the standard library is
used, and the form of the word that a driver hands to its workers never changes.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cenote import __version__

PREFIX_VARIABLE = "CENOTE_PREFIX"
"""By which an environment that was unpacked on a node says where its software is."""
WHOLE = 99
"""All numbers of a version."""


class Agreement(NamedTuple):
    """When workers with another version of a package are turned away."""

    numbers: int
    """How many of the first numbers of both versions have to agree; the rest of the version may differ, with a warning.
    None of them where any version will do."""
    why: str
    always: bool = True
    """Whether it is a package that every run compares; else a backend that uses it says so. Python is not a package."""


RULES: dict[str, Agreement] = {
    "python": Agreement(2, "functions travel as bytecode, which only the same minor version runs", always=False),
    "cenote": Agreement(
        WHOLE, "tasks and messages are as this version has them, and results are named by what it computes"
    ),
    "dask": Agreement(WHOLE, "scheduler and workers speak the language of one release", always=False),
    "distributed": Agreement(WHOLE, "scheduler and workers speak the language of one release", always=False),
    "cloudpickle": Agreement(1, "functions are put together again by code of the same major version", always=False),
    "msgpack": Agreement(1, "major versions read text and bytes differently", always=False),
    "msgspec": Agreement(1, "tasks and their outcomes are values of its types"),
    "numpy": Agreement(
        1, "arrays of 2 cannot be read by 1, and both compute with other types: numbers change silently"
    ),
    "awkward": Agreement(1, "arrays of one major version cannot be read by another"),
    "boost-histogram": Agreement(1, "histograms of one major version cannot be read by another"),
    "hist": Agreement(1, "histograms of one major version cannot be read by another"),
    "pyarrow": Agreement(0, "data is read by it; nothing of it travels"),
    "uproot": Agreement(0, "data is read by it; nothing of it travels"),
}
"""Packages that driver and workers share. A version that differs and need not agree is worth a warning; of Python, the
third number is not even that."""
PACKAGES = tuple(name for name, rule in RULES.items() if rule.always)
"""Those of every run; a backend may add some."""
_ANY = Agreement(0, "")
_INSTALLED = re.compile(r"(?P<name>.+?)-(?P<version>\d[^-]*)(-py[\d.]+)?\.(dist|egg)-info")


class Difference(NamedTuple):
    """A package that worker and driver have in different versions."""

    package: str
    there: str | None
    """On the worker; None where it is missing."""
    here: str
    """With the driver."""
    refused: bool
    """Whether the worker cannot work with this driver."""

    def __str__(self) -> str:
        name = "Python" if self.package == "python" else self.package
        there = f"{name} {self.there}" if self.there else f"no {name}"
        return f"{there} (the driver has {self.here})"


def installed_versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Of these packages here; None for one that is missing."""
    found = installed_packages()
    return {name: found.get(_plain(name)) for name in packages}


def installed_packages() -> dict[str, str]:
    """All packages here with their versions, as PyPI spells them. Read from the names of folders: nothing is imported,
    and no file is opened, since workers ask as they start."""
    found: dict[str, str] = {"cenote": __version__}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208  # pathlib takes longer to import than this takes
        except OSError:
            continue
        for name in names:
            if name.endswith("-info") and (match := _INSTALLED.fullmatch(name)):
                found.setdefault(_plain(match["name"]), match["version"])
    return dict(sorted(found.items()))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def software_here(packages: Iterable[str]) -> dict[str, str]:
    """Python, and those of these packages that are installed, with their versions."""
    installed = installed_versions(packages)
    return {"python": platform.python_version(), **{name: found for name, found in installed.items() if found}}


def as_word(software: Mapping[str, str]) -> str:
    """Software as one word of a command line: `python=3.11.9,cenote=1.0.0`. The form never changes."""
    return ",".join(f"{name}={version}" for name, version in software.items())


def from_word(word: str) -> dict[str, str]:
    """The software that such a word names; what is not of that form is passed over."""
    return {name: version for name, sign, version in (one.partition("=") for one in word.split(",")) if sign}


def differences(driver: Mapping[str, str], worker: Mapping[str, str | None]) -> tuple[Difference, ...]:
    """What the worker has in another version than the driver, those first that it is turned away for."""
    found = [_difference(name, here, worker.get(name)) for name, here in driver.items()]
    return tuple(sorted((one for one in found if one is not None), key=lambda one: not one.refused))


def _difference(package: str, here: str, there: str | None) -> Difference | None:
    if there == here:
        return None
    numbers = RULES.get(package, _ANY).numbers
    agree = there is not None and numbers < WHOLE and _first(there, numbers) == _first(here, numbers)
    if package == "python" and agree:
        return None
    return Difference(package, there, here, refused=numbers > 0 and not agree)


def _first(version: str, numbers: int) -> list[str]:
    return re.findall(r"\d+", version)[:numbers]


def refusal(found: Iterable[Difference]) -> str | None:
    """Why a worker with these differences is turned away, in one line; None where it is not."""
    refused = [one for one in found if one.refused]
    if not refused:
        return None
    why = RULES[refused[0].package].why
    return f"its software does not fit the driver's: it has {in_words(refused)}; {why}"


def in_words(found: Iterable[Difference]) -> str:
    """Differences in one line."""
    return ", ".join(map(str, found))


def warning(whose: str, words: str) -> str:
    """What the user should know of workers with these differences that may work all the same."""
    return f"{whose} have other software than the driver: {words}; numbers may differ"
