"""A job flavour says how long workers live, and output is streamed only where a site allows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from cenote.language.execution import Amounts
from cenote.strategies.htcondor.strategy import HTCondor
from cenote.strategies.interface import JobRequest

REQUEST = JobRequest(
    run="r1",
    pool="gpu",
    worker="gpu-1",
    command=("python",),
    resources=Amounts(),
    out=Path("/run/out/gpu-1"),
    err=Path("/run/err/gpu-1"),
)


def seconds_of(strategy: HTCondor) -> int | None:
    return strategy.lifetime.seconds if strategy.lifetime else None


def test_a_flavour_gives_workers_the_time_that_its_jobs_have() -> None:
    strategy = HTCondor(job_flavour="espresso")
    assert seconds_of(strategy) == 20 * 60
    text = strategy.render(REQUEST)
    assert '+JobFlavour = "espresso"' in text
    assert "MaxRuntime" not in text
    assert "periodic_remove" not in text


def test_a_walltime_wins_over_the_flavour() -> None:
    strategy = HTCondor.model_validate({"job_flavour": "nextweek", "walltime": "2h"})
    assert seconds_of(strategy) == 7200
    assert "+MaxRuntime = 7200" in strategy.render(REQUEST)


def test_a_flavour_that_nobody_knows_sets_no_limit_here() -> None:
    assert seconds_of(HTCondor(job_flavour="ristretto")) is None


def test_a_site_has_flavours_of_its_own() -> None:
    strategy = HTCondor.model_validate({"job_flavour": "short", "job_flavours": {"short": "30m", "long": "08:00:00"}})
    assert seconds_of(strategy) == 1800


def test_a_flavour_without_a_time_is_refused() -> None:
    with pytest.raises(ValidationError, match="is not a time"):
        HTCondor.model_validate({"job_flavours": {"short": "soon"}})


@pytest.mark.parametrize(("streamed", "word"), [(False, "false"), (True, "true")])
def test_transferred_output_is_streamed_only_when_asked_for(streamed: bool, word: str) -> None:
    text = HTCondor(transfer_files=True, stream_output=streamed).render(REQUEST)
    assert f"stream_output = {word}\nstream_error = {word}\n" in text


def test_output_on_a_shared_file_system_is_there_at_once_anyway() -> None:
    assert "stream_output" not in HTCondor(stream_output=True).render(REQUEST)
