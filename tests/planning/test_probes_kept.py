"""Test that probes are kept by what decides where workers start, and that a lost database is no matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from cenote.common.text import format_age
from cenote.planning.probes.cache import ProbeHistory, as_seen_by
from cenote.planning.probes.result import Finding, Probed, ProbeVerdict, in_a_sentence, worst
from cenote.planning.record import ProbeRecord, as_json

BAD = Finding("network", "problem", "does not reach the driver", hint="open the port", lines=("a", "b"))
ODD = Finding("memory", "warning", "1 GB seen, 2 GB promised")
OWN = Finding("data", "problem", "there is no such file", of_workflow=True)
PROBE = Probed(1000.0, "/home/me/flow.yaml", "node07", (ODD, BAD, OWN))


def test_the_last_probe_of_a_key_is_found_again(tmp_path: Path) -> None:
    history = ProbeHistory(tmp_path / "cache")
    assert history.of(["a"]) == {}

    history.keep({"a": Probed(1.0, "f"), "b": PROBE})
    history.keep({"a": PROBE})

    assert ProbeHistory(tmp_path / "cache").of(["a", "b", "c"]) == {"a": PROBE, "b": PROBE}


def test_a_broken_database_is_forgotten_and_made_anew(tmp_path: Path) -> None:
    ProbeHistory(tmp_path).keep({"a": PROBE})
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"no database at all, but long enough to be looked at" * 100)

    assert ProbeHistory(tmp_path).of(["a"]) == {}
    ProbeHistory(tmp_path).keep({"a": PROBE})
    assert ProbeHistory(tmp_path).of(["a"]) == {"a": PROBE}


def test_what_concerns_the_files_of_a_workflow_is_nothing_to_another() -> None:
    assert as_seen_by(PROBE, "/home/me/flow.yaml") == PROBE
    assert as_seen_by(PROBE, "flow.yaml") == PROBE
    assert as_seen_by(PROBE, "/home/me/other.yaml").findings == (ODD, BAD)


@pytest.mark.parametrize(
    ("findings", "verdict"), [((), "ok"), ((ODD,), "warning"), ((ODD, BAD), "problem")], ids=["none", "odd", "bad"]
)
def test_the_worst_finding_decides(findings: tuple[Finding, ...], verdict: ProbeVerdict) -> None:
    assert worst(findings) == verdict


def test_a_probe_is_told_with_its_age_and_its_problems_first() -> None:
    assert in_a_sentence("gpu", PROBE, now=1000.0 + 7300) == (
        "the last probe of 'gpu', 2h 1m ago on node07: network: does not reach the driver; "
        "data: there is no such file; memory: 1 GB seen, 2 GB promised"
    )
    assert (format_age(3), format_age(61), format_age(90061)) == ("just now", "1m ago", "1d 1h ago")


def test_other_programs_get_what_is_not_well() -> None:
    told = as_json(ProbeRecord.of("k", PROBE))

    assert (told["at"], told["verdict"], told["host"]) == ("1970-01-01T00:16:40+00:00", "problem", "node07")
    assert told["findings"][0] == {
        "question": "network",
        "verdict": "problem",
        "words": "does not reach the driver",
        "hint": "open the port",
        "lines": ["a", "b"],
        "of_workflow": False,
    }
    assert as_json(ProbeRecord.of("k", None)) == {"key": "k", "at": None, "verdict": None, "host": None, "findings": []}
