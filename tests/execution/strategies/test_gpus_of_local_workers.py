"""Workers on one machine see their own GPUs only, and different workers different ones."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cenote.execution.strategies.local.strategy import LocalStrategy, gpus_for
from cenote.language.execution import Amounts
from cenote.testing.launches import a_launch

HERE = ("0", "1", "2", "3")


def test_workers_take_gpus_in_turn_and_those_that_are_free_first() -> None:
    assert gpus_for(1, HERE, []) == ("0",)
    assert gpus_for(1, HERE, ["0"]) == ("1",)
    assert gpus_for(2, HERE, ["0", "2"]) == ("1", "3")


def test_more_workers_than_gpus_share_them_evenly() -> None:
    taken: list[str] = []
    for _ in range(8):
        taken += gpus_for(1, HERE, taken)
    assert sorted(taken) == sorted(HERE * 2)


def test_nobody_gets_more_than_there_is_or_anything_unasked() -> None:
    assert gpus_for(8, HERE, []) == HERE
    assert gpus_for(0, HERE, []) == ()
    assert gpus_for(2, (), []) == ()


SHOW_AND_STAY = "import os, time; print(os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True); time.sleep(60)"


def seen_by_workers(folder: Path, *gpus: int) -> list[str]:
    """What workers with so many GPUs, all there at once, find in their environment."""
    strategy = LocalStrategy()
    launch = a_launch(sys.executable, "-c", SHOW_AND_STAY, folder=folder)
    launch.run.make_folders()
    files = [launch.run.folder("out") / f"p-{number}" for number in range(len(gpus))]
    jobs = [
        job
        for file, count in zip(files, gpus, strict=True)
        for job in strategy.submit(replace(launch, resources=Amounts(gpus=count)), [file.name])
    ]
    deadline = time.monotonic() + 30
    try:
        while not all(file.read_text().endswith("\n") for file in files):
            assert time.monotonic() < deadline, "the workers did not start in time"
            time.sleep(0.02)
    finally:
        strategy.cancel(jobs)
    return [file.read_text().strip() for file in files]


def test_workers_with_gpus_see_their_own_and_workers_without_see_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c")
    assert seen_by_workers(tmp_path, 1, 0, 2) == ["GPU-a", "", "GPU-b,GPU-c"]


def test_where_there_are_no_gpus_nothing_is_said_about_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("cenote.execution.strategies.local.strategy.visible_gpus", tuple)
    assert seen_by_workers(tmp_path, 1, 0) == ["None", "None"]
