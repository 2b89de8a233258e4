"""What plans know of memory from earlier runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cenote.planning.forecast import task_history as history
from cenote.planning.forecast.task_history import Seen, TaskHistory
from cenote.planning.forecast.time import expected_peak, too_little
from cenote.planning.plan import Learned

GB = 10**9


def test_inputs_of_about_the_same_size_tell_directly() -> None:
    seen = [Seen(1000, 1 * GB, 5), Seen(100_000, 3 * GB, 5)]
    assert expected_peak(seen, 1200) == 1 * GB
    assert expected_peak(seen, 90_000) == 3 * GB


def test_memory_of_larger_inputs_is_reckoned_from_two_sizes() -> None:
    seen = [Seen(10_000, 1 * GB, 5), Seen(110_000, 2 * GB, 5)]
    assert expected_peak(seen, 310_000) == 4 * GB


def test_a_few_events_more_do_not_make_what_a_process_takes_anyway_grow() -> None:
    seen = [Seen(80, 120_000_000, 5), Seen(420, 290_000_000, 8)]
    assert expected_peak(seen, 244_000) == 290_000_000


def test_one_size_alone_says_only_that_larger_inputs_take_no_less() -> None:
    assert expected_peak([Seen(1000, 2 * GB, 5)], 1_000_000) == 2 * GB


def test_nothing_is_claimed_of_inputs_smaller_than_any_that_was_seen_or_without_history() -> None:
    assert expected_peak([Seen(1_000_000, 8 * GB, 5)], 1000) is None
    assert expected_peak([], 1000) is None


def learned(*, memory: int | None, tasks: int = 12, stages: tuple[str, ...] = ("Greedy",)) -> Learned:
    return Learned(0, stages, events=200_000, peak_memory=31 * GB // 10, tasks=tasks, pool="default", memory=memory)


def test_a_pool_that_gives_less_than_was_needed_is_warned_of_with_the_numbers() -> None:
    assert too_little(learned(memory=2 * GB)) == (
        "stage 'Greedy' needs about 3.1 GB for 200 k events, as learned from 12 tasks of earlier runs; "
        "pool 'default' gives 2 GB a task"
    )
    assert too_little(learned(memory=4 * GB)) is None
    assert too_little(learned(memory=None)) is None


def test_what_a_run_saw_is_found_again_and_the_latest_run_counts(tmp_path: Path) -> None:
    TaskHistory(tmp_path).add({"a": [Seen(1000, 5, 1), Seen(10, 2, 1)], "b": [Seen(7, 7, 7)]}, at=1.0)
    TaskHistory(tmp_path).add({"a": [Seen(1010, 4, 3)]}, at=2.0)
    assert TaskHistory(tmp_path).of(["a", "c"]) == {"a": (Seen(10, 2, 1), Seen(1010, 4, 3))}


def test_the_history_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_MOST_ROWS", 3)
    for number in range(10):
        TaskHistory(tmp_path).add({f"key {number}": [Seen(1, 1, 1)]}, at=float(number))
    assert set(TaskHistory(tmp_path).of(f"key {number}" for number in range(10))) == {"key 7", "key 8", "key 9"}


def test_a_history_that_is_missing_broken_or_not_to_be_written_only_means_that_nothing_is_known(
    tmp_path: Path,
) -> None:
    assert TaskHistory(tmp_path).of(["a"]) == {}
    (tmp_path / "tasks-2.sqlite").write_bytes(b"not a database, but long enough to be one" * 100)
    assert TaskHistory(tmp_path).of(["a"]) == {}
    TaskHistory(tmp_path).add({"a": [Seen(1, 1, 1)]}, at=0.0)
    assert TaskHistory(tmp_path).of(["a"]) == {"a": (Seen(1, 1, 1),)}
    (tmp_path / "file").write_text("in the way")
    TaskHistory(tmp_path / "file" / "below").add({"a": [Seen(1, 1, 1)]}, at=0.0)
