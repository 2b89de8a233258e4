"""Whatever is edited, a run leaves what a fresh one does, to the last bit; and what changes no number costs nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from builders.studies.days import Day, in_this_process, play, write_pool
from builders.studies.study import Study
from builders.studies.whole_study import CHANGES, stage, whole_study, write_whole_pool

from ..conftest import DEEP

DAYS = 250 if DEEP else 4
EDITS = 40 if DEEP else 6
"""Of each day."""
TRIED = list(CHANGES) if DEEP else list(CHANGES)[::5]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    with in_this_process(tmp_path):
        yield tmp_path


@pytest.fixture
def day(folder: Path) -> Day:
    """A day that begins with one of everything."""
    found = Day(folder, whole_study(write_whole_pool(folder / "pool")))
    assert found.stale(found.study)[0] == []
    return found


def edited(study: Study, name: str) -> Study:
    return CHANGES[name](replace(study, flow=copy.deepcopy(study.flow)))


@pytest.mark.parametrize("seed", range(DAYS))
def test_a_day_of_random_edits_leaves_nothing_stale(folder: Path, seed: int) -> None:
    assert list(play(seed, folder, write_pool(folder / "pool"), EDITS)) == []


def test_each_thing_that_results_depend_on_counts(day: Day) -> None:
    for name in TRIED:
        assert day.stale(edited(day.study, name))[0] == [], name
    assert day.stale(day.study)[0] == []


def label(study: Study) -> Study:
    stage(study, "Weighted")["params"]["axes"][0]["label"] = "another"
    return study


def words(study: Study) -> Study:
    return replace(study, gaps={**study.gaps, "comment": "# more\n\n", "docstring": '"""Less."""  # so'})


def spelling(study: Study) -> Study:
    stage(study, "Cut")["params"]["selection"] = ["((MET_pt)   >   5)"]
    return study


def key_order(study: Study) -> Study:
    for one in (study.flow, *study.stages, *study.datasets):
        items = list(one.items())[::-1]
        one.clear()
        one.update(items)
    return study


def group(study: Study) -> Study:
    study.datasets[0]["group"] = "signal"
    return study


def workers(study: Study) -> Study:
    study.flow["execution"]["pools"]["default"]["workers"] = 3
    return study


def copies(study: Study) -> Study:
    return replace(study, touched=frozenset(study.data))


def a_fact_that_nobody_reads(study: Study) -> Study:
    study.datasets[0]["nevents"] = 1000
    return study


FREE = (label, words, spelling, key_order, group, workers, copies, a_fact_that_nobody_reads)


def test_what_changes_no_number_costs_no_task(day: Day) -> None:
    study = day.study
    study.flow["sources"]["scaled"]["same_file"] = "content"
    assert day.stale(study)[0] == []
    for edit in FREE:
        study = edit(replace(study, flow=copy.deepcopy(study.flow), touched=frozenset()))
        stale, ran = day.stale(study)
        assert (edit.__name__, stale, ran.done) == (edit.__name__, [], ())


def test_a_fact_of_one_dataset_costs_the_others_nothing(day: Day) -> None:
    stale, ran = day.stale(edited(day.study, "a fact"))
    assert stale == []
    assert ran.datasets() == {"a"}


def after(day: Day, *names: str) -> list[str]:
    """What is stale after one change after the other."""
    found, study = [], day.study
    for name in names:
        study = edited(study, name)
        found += day.stale(study)[0]
    return found


def test_events_that_are_kept_are_seen_with_the_facts_of_now(day: Day) -> None:
    assert after(day, "a fact", "the order of datasets", "a constant") == []


def test_files_are_written_again_where_their_own_sink_changed(day: Day) -> None:
    assert after(day, "own sink") == []


def test_a_function_counts_that_begins_a_line(day: Day) -> None:
    assert after(day, "a function") == []


def test_a_modifier_that_changes_results_may_look_at_the_name_of_the_dataset(day: Day) -> None:
    assert after(day, "names of datasets", "own modifier") == []


def test_files_of_a_stage_that_writes_none_any_more_go(day: Day) -> None:
    study = replace(day.study, flow=copy.deepcopy(day.study.flow))
    del stage(study, "Aside")["write"]
    assert day.stale(study)[0] == []
    assert day.stale(day.study)[0] == []
