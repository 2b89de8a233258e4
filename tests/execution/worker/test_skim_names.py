"""Skims get names that cannot collide."""

from __future__ import annotations

from pathlib import Path

import pytest

from cenote.planning.outputs.rules import skim_path


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("skim.root", "skim/zmumu/00003.root"),
        ("skims/{dataset}.root", "skims/zmumu/00003.root"),
        ("skims/{dataset}-{part}.root", "skims/zmumu-00003.root"),
        ("skims/{part}.root", "skims/zmumu/00003.root"),
        ("skims/{dataset}", "skims/zmumu/00003.parquet"),
        ("skim", "skim/zmumu/00003.parquet"),
        ("v1.2/{dataset}", "v1.2/zmumu/00003.parquet"),
    ],
)
def test_every_partition_has_a_file_of_its_own(template: str, expected: str) -> None:
    assert skim_path(template, dataset="zmumu", part="00003", suffix=".parquet") == Path(expected)


def test_a_dot_in_the_name_of_a_dataset_is_no_ending() -> None:
    assert skim_path("{dataset}", dataset="zmumu.v2", part="00000", suffix=".root") == Path("zmumu.v2/00000.root")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("skim.root", "skim/zmumu.root"),
        ("skims/{dataset}_hard.root", "skims/zmumu_hard.root"),
        ("skims/{dataset}", "skims/zmumu.parquet"),
    ],
)
def test_a_dataset_may_have_one_file(template: str, expected: str) -> None:
    assert skim_path(template, dataset="zmumu", part=None, suffix=".parquet") == Path(expected)
