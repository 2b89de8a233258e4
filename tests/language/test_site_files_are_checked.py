"""The file of a site is checked by itself, so that a mistake in it reaches nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cenote.language.checks.site import Site, check_site

Write = Callable[[str, str], Path]


@pytest.fixture
def mistakes(write: Write) -> Callable[[str], list[str]]:
    """What is wrong with a file that holds this, as `line: message`."""

    def reader(text: str) -> list[str]:
        problems = check_site(write("site.yaml", text)).problems
        return [f"{problem.place.line if problem.place else 0}: {problem.message}" for problem in problems]

    return reader


def test_all_mistakes_are_told_at_once_with_their_places(mistakes: Callable[[str], list[str]]) -> None:
    found = mistakes("""
        site: {name: mysite}
        execution:
          strategy: slurmm
          config: {port: 9-1}
        pool_profiles:
          a: {workers: many}
          b: {strategy: slurm, config: {walltime: long, partitoin: x}}
          c: {use: d}
        """)
    assert [line.split(":")[0] for line in found] == ["3", "4", "6", "7", "7", "8"]
    for words in ("slurmm", "9-1", "workers", "walltime", "partitoin", "pool profile 'd'"):
        assert any(words in line for line in found), words


def test_a_file_of_a_site_says_whose_it_is(mistakes: Callable[[str], list[str]]) -> None:
    assert mistakes("execution: {strategy: slurm}\n") == ["1: 'site' is missing in the site configuration file"]


def test_pool_profiles_may_fall_back_on_pools_that_workflows_will_have(mistakes: Callable[[str], list[str]]) -> None:
    assert mistakes("site: {name: s}\npool_profiles: {a: {workers: 1, fallback: [default]}}\n") == []


def test_what_a_site_gives_is_known_by_itself(write: Write) -> None:
    file = write(
        "site.yaml",
        """
        site: {name: s}
        execution: {strategy: slurm}
        pool_profiles:
          standard_worker: {workers: 3}
          big: {use: standard_worker, resources: {memory: 64GB}}
        """,
    )
    site = check_site(file).site
    assert isinstance(site, Site)
    assert site.chosen == {"strategy"}
    assert site.own_profiles == {"standard_worker", "big"}
    shapes = {pool.name: (pool.workers, pool.resources.memory) for pool in site.profiles}
    assert shapes == {
        "standard_worker": (3, 4_000_000_000),
        "gpu_worker": (1, 16_000_000_000),
        "big": (3, 64_000_000_000),
    }


@pytest.mark.parametrize(
    "text", ["", "[1, 2]", "site: {name: x", "site: \x00", "site: [1]", "pool_profiles: 3\nsite: {name: x}"]
)
def test_whatever_the_file_holds_it_is_a_problem_and_no_traceback(write: Write, text: str) -> None:
    assert check_site(write("site.yaml", text)).problems
