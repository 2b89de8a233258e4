"""Whatever an expression holds, it has a value or an error with a column; `make fuzz` tries more of them."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from fuzzing.targets import TARGETS

TEXTS = 100_000 if os.environ.get("CENOTE_DEEP_TESTS") else 800
TARGET = TARGETS["expressions"]


def test_odd_expressions_are_explained() -> None:
    for seed in range(TEXTS):
        TARGET.run(TARGET.make(Random(seed)))


@pytest.mark.parametrize("file", TARGET.found, ids=lambda file: file.name)
def test_what_once_broke_the_reader_is_explained(file: Path) -> None:
    TARGET.run(file.read_bytes())


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9**9",
        "((((((9**64)**64)**64)**64)**64)**64)**64",
        "(whole**9)**9**9",
        "1" + "<<63" * 4000,
        "*".join(["18446744073709551615"] * 900),
        "flat" + "+flat" * 3000,
        "(" * 19_000,
        "-" * 19_000 + "flat",
        "not " * 4000 + "flag",
        "flat" + "[flag]" * 3000,
        "sqrt(" * 3000 + "flat" + ")" * 3000,
        "1" * 19_000,
        "0x" + "F" * 19_000,
        "1e" + "9" * 5000,
        "_" * 19_000 + "!",
        "a." * 9000,
        "'" + "x" * 19_000,
        "x" * 30_000,
    ],
    ids=range(18),
)
def test_bombs_do_not_go_off(text: str) -> None:
    TARGET.run(text.encode())
