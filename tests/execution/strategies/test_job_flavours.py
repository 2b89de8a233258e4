"""A job flavour says how long workers live, and output is streamed only where a site allows it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cenote.execution.strategies.htcondor.strategy import HTCondor
from cenote.testing.launches import a_launch


def rendered(strategy: HTCondor) -> str:
    (text,) = strategy.render(a_launch("python"), ["gpu-1"])
    return text


def seconds_of(strategy: HTCondor) -> int | None:
    return strategy.lifetime.seconds if strategy.lifetime else None


def test_a_flavour_gives_workers_the_time_that_its_jobs_have() -> None:
    strategy = HTCondor(job_flavour="espresso")
    assert seconds_of(strategy) == 20 * 60
    text = rendered(strategy)
    assert '+JobFlavour = "espresso"' in text
    assert "MaxRuntime" not in text
    assert "periodic_remove" not in text


def test_a_walltime_wins_over_the_flavour() -> None:
    strategy = HTCondor.model_validate({"job_flavour": "nextweek", "walltime": "2h"})
    assert seconds_of(strategy) == 7200
    assert "+MaxRuntime = 7200" in rendered(strategy)


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
    text = rendered(HTCondor(transfer_files=True, stream_output=streamed))
    assert f"stream_output = {word}\nstream_error = {word}\n" in text


def test_output_on_a_shared_file_system_is_there_at_once_anyway() -> None:
    assert "stream_output" not in rendered(HTCondor(stream_output=True))
