"""Driver and workers compare their software: what must agree, what may differ, and how they tell each other."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from pathlib import Path

import pytest

from cenote.common import software
from cenote.common.software import RULES, Difference, differences, refusal


@pytest.mark.parametrize(
    ("package", "here", "there", "refused"),
    [
        ("python", "3.11.9", "3.11.2", None),
        ("python", "3.11.9", "3.12.9", True),
        ("python", "3.11.9", "4.11.9", True),
        ("cenote", "1.2.3", "1.2.4", True),
        ("cenote", "1.2.3", "1.2.3", None),
        ("dask", "2026.8.0", "2026.8.1", True),
        ("distributed", "2026.8.0", None, True),
        ("numpy", "2.1.0", "2.0.0rc1", False),
        ("numpy", "2.1.0", "1.26.4", True),
        ("numpy", "2.1.0", None, True),
        ("awkward", "2.6.0", "2.7.0", False),
        ("awkward", "2.6.0", "1.10.3", True),
        ("uproot", "5.3.0", "4.0.0", False),
        ("uproot", "5.3.0", None, False),
        ("somebodys-package", "1.0", "2.0", False),
    ],
)
def test_what_a_worker_is_turned_away_for(package: str, here: str, there: str | None, refused: bool | None) -> None:
    found = differences({package: here}, {package: there} if there else {})

    assert [one.refused for one in found] == ([] if refused is None else [refused])


def test_the_reason_names_both_versions_of_all_that_do_not_fit_and_why() -> None:
    driver = {"python": "3.11.9", "cenote": "1.0", "uproot": "5.3", "numpy": "2.1"}
    reason = refusal(differences(driver, {"python": "3.12.1", "cenote": "1.1", "uproot": "5.4", "numpy": "2.1"}))

    assert reason == (
        "its software does not fit the driver's: it has Python 3.12.1 (the driver has 3.11.9), "
        f"cenote 1.1 (the driver has 1.0); {RULES['python'].why}"
    )
    assert refusal([Difference("uproot", "5.4", "5.3", refused=False)]) is None


def test_versions_are_those_that_the_installed_packages_state() -> None:
    names = [name for name in RULES if name != "python"]
    found = software.installed_versions([*names, "Boost_Histogram", "no-such-package"])

    assert found.pop("no-such-package") is None
    assert found == {name: importlib.metadata.version(name) for name in found}


def test_the_first_folder_of_the_path_counts_as_it_does_for_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), str(tmp_path), *sys.path])
    for name in ("NumPy-1.0.0rc1.dist-info", "zope.x-2.0-py3.11.egg-info", "odd.egg-info", "uproot_custom-3.dist-info"):
        (tmp_path / name).mkdir()

    found = software.installed_versions(["numpy", "zope-x", "odd", "uproot"])

    assert found == {"numpy": "1.0.0rc1", "zope-x": "2.0", "odd": None, "uproot": importlib.metadata.version("uproot")}


def test_software_travels_as_one_word_that_shells_and_batch_systems_leave_alone() -> None:
    here = software.software_here(RULES)
    word = software.as_word(here)

    assert software.from_word(word) == here
    assert here["python"] == platform.python_version()
    assert not set(word) & set(" '\"\\$`&|;<>()*?[]{}~#!\n\t")
    assert software.from_word("") == {}
    assert software.from_word("what,later=2,versions") == {"later": "2"}
