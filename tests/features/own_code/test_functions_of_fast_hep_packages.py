"""Sources and sinks of packages that were written for FAST-HEP: functions with a description beside them."""

from __future__ import annotations

import numpy as np
import pytest

import cenote

from ..conftest import Desk

PACKAGE = """
import awkward as ak
import numpy as np

WAVE_SPEC = {
    "name": "lab.wave",
    "kind": "source",
    "params": {"nevents": {"required": False, "default": 10}, "step": {"required": True}},
    "result": {"kind": "event_stream"},
}


def run_wave(*, nevents=10, step, ctx=None, **params):
    files = ctx["dataset"]["files"]
    lines = [float(np.loadtxt(file)) for file in files] or [0.0]
    time = np.arange(nevents) * step
    hits = ak.unflatten(np.repeat(time, np.arange(nevents) % 3), np.arange(nevents) % 3)
    return {"time": time, "height": np.sin(time) + lines[0], "hits": hits, "note": "of no event"}


def run_note(*, target, fields, path=None, unit="m", ctx=None):
    rows = zip(*(target[name].tolist() for name in fields))
    with open(path, "w") as file:
        file.writelines(f"{' '.join(map(str, row))} {unit}\\n" for row in rows)


def run_nothing(*, target, path=None):
    pass


NOTHING_SPEC = {"name": "lab.nothing", "kind": "sink", "input": {"name": "target"}}


def no_events(*, nevents, step, ctx=None):
    return {}


def undescribed(*, height):
    return {}
"""
SPECS = """
NOTE_SPEC = {
    "name": "lab.note",
    "kind": "sink",
    "input": {"name": "target", "required": True},
    "params": {"path": {"required": False}, "fields": {"required": True}, "unit": {"required": False, "default": "m"}},
    "requires": {"symbols": [{"from": "params.fields", "kind": "field_list"}]},
}
"""
FLOW = """
registry:
  sources: {lab.wave: {spec: "OPS:WAVE_SPEC", impl: "OPS:run_wave"}}
  sinks: {lab.note: {spec: "lab_specs:NOTE_SPEC", impl: "OPS:run_note"}, lab.nothing: {impl: "OPS:run_nothing"}}
DATA
sources: {events: {kind: lab.wave, nevents: 100, step: 0.1, chunk_size: 33}}
analysis:
  stages:
    - {id: Sum, op: aggregate, params: {values: {n: {op: count}, hits: {op: sum, of: "sum(hits)"}}}}
    - id: High
      op: filter
      needs: []
      params: {expr: "height > LIMIT"}
      write: {kind: lab.note, path: high.txt, when: final, fields: [time, height], unit: cm}
"""


@pytest.fixture
def lab(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk.write("lab_functions.py", PACKAGE)
    desk.write("lab_specs.py", SPECS)
    monkeypatch.syspath_prepend(str(desk.folder))
    return desk


@pytest.mark.parametrize(
    ("data", "offset"), [("", 0.0), ("data: {datasets: [{name: sea, files: [offset.dat]}]}", 2.5)], ids=["made", "read"]
)
def test_a_source_and_a_sink_of_a_package_run_as_they_are(lab: Desk, data: str, offset: float) -> None:
    lab.write("offset.dat", f"{offset}\n")
    text = FLOW.replace("OPS", "lab_functions").replace("DATA", data).replace("LIMIT", str(offset + 0.9))
    run = cenote.load(lab.write("flow.yaml", text)).run(lab.folder / "out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    time = np.arange(100) * 0.1
    height = np.sin(time) + offset
    assert run.product("Sum").rows() == [(100, pytest.approx(float((time * (np.arange(100) % 3)).sum())))]
    lines = [f"{t} {h} cm" for t, h in zip(time.tolist(), height.tolist(), strict=True) if h > offset + 0.9]
    assert (lab.folder / "out/products/high.txt").read_text().splitlines() == lines


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("step: 0.1", "stepp: 0.1", "did you mean 'step'?"),
        ("OPS:run_wave", "OPS:no_events", "it returned a value of type dict where events are due"),
        ("sources: {lab.wave", "sources: {lab.other: {impl: 'OPS:undescribed'}, lab.wave", "without a description"),
        ("unit: cm", "untt: cm", "did you mean 'unit'?"),
        ("when: final", "when: partition", "lab.note"),
    ],
)
def test_what_does_not_fit_is_said_before_the_run(lab: Desk, old: str, new: str, words: str) -> None:
    text = FLOW.replace(old, new).replace("OPS", "lab_functions").replace("DATA", "").replace("LIMIT", "0")
    lab.write("flow.yaml", text)
    checked = lab.typed("check", "flow.yaml")
    assert checked.returncode != 0
    assert words in checked.stderr, checked.stderr


def test_a_sink_that_writes_nothing_fails_its_run(lab: Desk) -> None:
    text = FLOW.replace("kind: lab.note", "kind: lab.nothing").replace(", fields: [time, height], unit: cm", "")
    text = text.replace("OPS", "lab_functions").replace("DATA", "").replace("LIMIT", "0")
    run = cenote.load(lab.write("flow.yaml", text)).run(lab.folder / "out", workers=1)
    assert run.status == "partial"
    assert "it did not write the file that it was given as `path`" in str(run.failures)
