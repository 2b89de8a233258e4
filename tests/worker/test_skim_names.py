"""Skims get names that cannot collide."""

from __future__ import annotations

from pathlib import Path

import pytest

from cenote.worker.skim import skim_path


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("skim.root", "skim/zmumu/00003.root"),
        ("skims/{dataset}.root", "skims/zmumu/00003.root"),
        ("skims/{dataset}-{part}.root", "skims/zmumu-00003.root"),
        ("skims/{part}.root", "skims/zmumu/00003.root"),
        ("skims/{dataset}", "skims/zmumu/00003.parquet"),
        ("skim", "skim/zmumu/00003.parquet"),
    ],
)
def test_every_partition_has_a_file_of_its_own(template: str, expected: str) -> None:
    assert skim_path(template, dataset="zmumu", part="00003", suffix=".parquet") == Path(expected)
