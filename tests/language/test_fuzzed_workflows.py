"""Whatever a workflow file holds, `check` answers with problems that have a position; `make fuzz` tries more."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from cenote.language.read import read_workflow
from fuzzing.targets import TARGETS, furnish

TEXTS = 2000 if os.environ.get("CENOTE_DEEP_TESTS") else 400
TARGET = TARGETS["workflows"]
LAUGHS = b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (level, level, b", ".join([b"*a%d" % (level - 1)] * 10)) for level in range(1, 12)
)


@pytest.fixture
def furnished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / ".cache"))
    monkeypatch.chdir(tmp_path)
    furnish(tmp_path)


@pytest.mark.usefixtures("furnished")
def test_odd_workflows_are_explained() -> None:
    for seed in range(TEXTS):
        TARGET.run(TARGET.make(Random(seed)))


@pytest.mark.usefixtures("furnished")
@pytest.mark.parametrize("file", TARGET.found, ids=lambda file: file.name)
def test_what_once_broke_the_reader_is_explained(file: Path) -> None:
    TARGET.run(file.read_bytes())


@pytest.mark.usefixtures("furnished")
@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        LAUGHS.replace(b"[", b"{k: [").replace(b"]", b"]}"),
        b"a: &a {<<: *a}\n",
        b"a: &a {x: 1}\n" + b"b: {<<: [" + b"*a, " * 20_000 + b"]}\n",
        b"a: " + b"[" * 100_000,
        b"- " * 100_000,
        b"? " * 50_000,
        b"a: " + b"x" * 3_000_000,
        b"#" * 3_000_000 + b"\na: 1\n",
        b"a: 0x" + b"F" * 1_000_000,
        b"a: " + b"9" * 1_000_000 + b"e" + b"9" * 100_000,
        b"analysis: {stages: [" + b"{id: a, op: hep.hist}," * 3000 + b"]}\n",
        b"plugins: " + b"x" * 5000 + b"\n",
        b"include: " + b"x/" * 3000 + b"\n",
        b"analysis: {stages: [{id: a, op: filter, params: {selection: '" + b"(" * 30_000 + b"'}}]}",
        b"analysis: {stages: [{id: a, op: filter, depends_on: ['~nobody-of-this-name/x', '" + b"y" * 999 + b"']}]}",
    ],
    ids=range(16),
)
def test_bombs_do_not_go_off(text: bytes) -> None:
    TARGET.run(text)


def test_aliases_are_counted_before_they_are_followed() -> None:
    (problem,) = read_workflow(Path("flow.yaml"), content=LAUGHS).problems
    assert "too large" in problem.message
    assert problem.place is not None
