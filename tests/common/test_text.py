"""The wording that commands, errors and reports share."""

from __future__ import annotations

from typing import get_args, get_type_hints

from cenote.common.text import (
    FAILURE_CAUSES,
    first_of,
    first_to_last,
    format_amount,
    format_amounts,
    format_estimate,
    format_pools,
    format_rate,
    join_words,
    plural,
)
from cenote.engine.messages import FailureInfo
from cenote.language.execution import Amounts

GB = 10**9


def test_counts_have_their_plural() -> None:
    assert (plural(1, "task"), plural(0, "task"), plural(1200, "task")) == ("1 task", "0 tasks", "1,200 tasks")
    assert plural(2, "axis", "axes") == "2 axes"


def test_one_amount_names_its_kind() -> None:
    assert (format_amount(0, "gpus"), format_amount(0.25, "gpus")) == ("no GPUs", "0.25 GPUs")
    assert format_amount(1000, "cpus") == "1000 CPUs"
    assert (format_amount(1, "cpus"), format_amount(GB, "memory")) == ("1 CPU", "1 GB of memory")


def test_amounts_stand_in_one_order_and_leave_out_what_is_not_stated() -> None:
    assert (
        format_amounts(Amounts(cpus=8, memory=128 * GB, gpus=1, disk=10 * GB)) == "8 CPUs, 128 GB, 1 GPU, 10 GB of disk"
    )
    assert format_amounts(Amounts(cpus=0.5)) == "0.5 CPUs"
    assert format_amounts(Amounts()) == ""


def test_pools_are_shared_or_tried_in_order() -> None:
    assert format_pools(("gpu",), shared=False) == "gpu"
    assert format_pools(("gpu", "old", "cpu"), shared=False) == "gpu, then old, then cpu"
    assert format_pools(("a", "b"), shared=True) == "a + b"
    assert format_pools((), shared=False) == "none"


def test_what_is_not_known_yet_is_empty() -> None:
    assert (format_rate(None), format_rate(2_100_000.0)) == ("", "2.1 M/s")
    assert (format_estimate(None), format_estimate(3.1), format_estimate(130)) == ("", "4s", "2m 10s")


def test_names_are_joined_and_cut() -> None:
    assert (join_words([]), join_words(["a"]), join_words(["a", "b", "c"])) == ("", "a", "a, b and c")
    assert (first_of(["a", "b"], most=2), first_of(["a", "b", "c"], most=2)) == ("a, b", "a, b and 1 more")
    assert (first_to_last(["a"]), first_to_last(["a", "b", "c"])) == ("a", "a … c")


def test_every_cause_of_a_failure_has_words() -> None:
    causes = set(get_args(get_type_hints(FailureInfo)["cause"]))
    assert causes - {"stopped"} == set(FAILURE_CAUSES)
