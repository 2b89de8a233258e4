"""Test how what a probe found is judged: against the driver, the pool's promise, and what stages need."""

from __future__ import annotations

import platform
from dataclasses import replace

import pytest

from builders.plans import a_pool
from cenote.common.software import installed_versions as versions
from cenote.execution.probe.question import imported_packages
from cenote.execution.probe.report import NOT_THERE, CredentialSeen, FileSeen, FolderSeen, Loaded, NodeReport, Question
from cenote.execution.probe.verdicts import Expectation, judge
from cenote.language.execution import Amounts
from cenote.planning.probes.result import Finding, worst

QUESTION = Question(pool="gpu", token="t", host="10.0.0.5", port=8786, plugins=(("/ops.py", None, None),))
GOOD = NodeReport(
    pool="gpu",
    token="t",
    host="node07",
    python=platform.python_version(),
    executable="/usr/bin/python3",
    cpus=8,
    memory=64 * 10**9,
    packages=versions(("numpy", "cenote")),
    modules=(Loaded("cenote.execution.worker.process.main", 1.2),),
    plugins=(Loaded("/ops.py", 0.1),),
    scratch=FolderSeen("/scratch", 10**12),
    folder=FolderSeen("/shared/out", 10**12),
    credentials=(CredentialSeen("x509", 0o600, 7200.0),),
    authorities="/etc/grid-security/certificates",
    files=(FileSeen("d", "/data/a.root", 0.2, 100),),
)


def expected(*, reads_files: bool = True, writes_files: bool = False, **amounts: int) -> Expectation:
    granted = Amounts(**amounts)
    pool = replace(a_pool("gpu", workers=1), resources=granted, granted=granted)
    return Expectation(QUESTION, pool, reads_files=reads_files, writes_files=writes_files)


def said(question: str, findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(one.verdict, one.words) for one in findings if one.question == question]


def test_a_node_with_everything_is_well() -> None:
    findings = judge(expected(cpus=4, memory=60 * 10**9, disk=10**11), GOOD)

    assert worst(findings) == "ok"
    assert said("network", findings) == [("ok", "reaches the driver at 10.0.0.5:8786")]
    assert said("data", findings) == [("ok", "opened in 200 ms: a.root")]


def test_every_problem_and_warning_says_what_to_do() -> None:
    nothing = NodeReport(
        pool="gpu",
        token="t",
        host="node07",
        python="3.9.1",
        executable="/usr/bin/python3",
        cpus=1,
        memory=10**9,
        packages={"numpy": None, "cenote": "0.0.1"},
        modules=(
            Loaded("cenote.execution.worker.process.main", 0.1, "ModuleNotFoundError: No module named 'msgspec'"),
        ),
        plugins=(Loaded("/ops.py", 0.1, "there is no such file"),),
        scratch=FolderSeen("/scratch", 0, "Read-only file system"),
        folder=FolderSeen("/shared/out", 0, "it is not there"),
        credentials=(CredentialSeen("x509", problem="X509_USER_PROXY is not set"),),
        files=(FileSeen("d", "/data/a.root", 0.2, 0, "/data/a.root does not exist"),),
        no_connection="Connection refused",
    )

    findings = judge(expected(cpus=4, memory=60 * 10**9, gpus=1), nothing)

    assert {one.question for one in findings if one.verdict == "ok"} == set()
    assert [one for one in findings if not one.hint] == []


@pytest.mark.parametrize(
    ("seen", "models", "verdict"),
    [(("0",), ("A100",), "ok"), (("0",), (), "warning"), ((), ("A100",), "problem")],
)
def test_gpus_are_compared_with_the_promise_and_with_the_driver_of_the_node(
    seen: tuple[str, ...], models: tuple[str, ...], verdict: str
) -> None:
    findings = judge(expected(gpus=1), replace(GOOD, gpus=seen, gpu_models=models))

    assert [verdict for verdict, _ in said("gpus", findings)] == [verdict]


def test_the_number_of_a_gpu_is_not_mistaken_for_how_many_there_are() -> None:
    findings = judge(expected(gpus=1), replace(GOOD, gpus=("0",), gpu_models=()))

    assert said("gpus", findings) == [("warning", "handed out: 0, but the node has no NVIDIA driver")]


def test_gpus_that_nobody_promised_are_of_no_interest() -> None:
    assert said("gpus", judge(expected(), GOOD)) == []


def test_versions_that_workers_are_turned_away_for_are_a_problem_and_others_a_warning() -> None:
    here = versions(("numpy", "cenote"))
    numpy = f"{str(here['numpy']).partition('.')[0]}.99"

    def verdict(**others: str) -> str:
        return worst(judge(expected(), replace(GOOD, packages={**here, **others})))

    assert (verdict(cenote="0.0.1"), verdict(numpy="1.0"), verdict(numpy=numpy)) == ("problem", "problem", "warning")
    python = said("python", judge(expected(), replace(GOOD, python="3.9.1")))
    assert [(verdict, words.partition(" in ")[0]) for verdict, words in python] == [("problem", "3.9.1")]
    assert said("packages", judge(expected(), replace(GOOD, packages={**here, "numpy": None}))) == [
        ("problem", "missing there: numpy")
    ]
    assert said("packages", judge(expected(), replace(GOOD, packages={**here, "pyarrow": None}))) == [
        ("warning", "missing there: pyarrow")
    ]


def test_what_the_driver_has_not_got_either_is_not_missed() -> None:
    assert worst(judge(expected(), replace(GOOD, packages={"no-such-package": None}))) == "ok"


def test_plugins_that_were_not_tried_are_told_of() -> None:
    own = replace(expected(), has_plugins=True)

    assert said("plugins", judge(own, GOOD)) == [("ok", "imported: ops.py")]
    assert said("plugins", judge(own, replace(GOOD, plugins=()))) == [("warning", "not tried: too large to send along")]


def test_a_folder_that_is_not_shared_is_only_slower() -> None:
    away = replace(GOOD, folder=FolderSeen("/shared/out", 0, NOT_THERE))

    assert said("folder", judge(expected(writes_files=True), away)) == [("warning", "/shared/out is not there")]


def test_a_folder_that_may_not_be_written_matters_only_where_stages_write_files() -> None:
    closed = replace(GOOD, folder=FolderSeen("/shared/out", 0, "Read-only file system"))

    assert worst(judge(expected(writes_files=True), closed)) == "problem"
    assert worst(judge(expected(), closed)) == "warning"


def test_data_out_of_reach_matters_only_where_stages_read_files() -> None:
    away = replace(GOOD, files=(FileSeen("d", "/data/a.root", 0.2, 0, "no answer within 60 s"), *GOOD.files))

    findings = judge(expected(), away)
    assert said("data", findings) == [
        ("problem", "dataset 'd': /data/a.root: no answer within 60 s"),
        ("ok", "1 of 2 files opened, in 200 ms: a.root"),
    ]
    assert worst(judge(expected(reads_files=False), away)) == "warning"


def test_slow_software_and_slow_data_are_warned_of() -> None:
    slow = replace(
        GOOD,
        modules=(Loaded("cenote.execution.worker.process.main", 45.0),),
        files=(FileSeen("d", "/data/a.root", 50.0, 100),),
    )

    findings = judge(expected(), slow)

    assert [one.question for one in findings if one.verdict == "warning"] == ["worker", "data"]


def test_packages_are_those_that_files_import_at_their_top() -> None:
    source = b"import os\nimport numpy as np\ntry:\n    from uproot.models import x\nexcept ImportError: ...\n"

    assert list(imported_packages([source])) == ["numpy", "uproot"]


@pytest.mark.parametrize(
    ("seen", "verdict", "words"),
    [
        (CredentialSeen("x509", 0o600, 7200.0), "ok", "2h"),
        (CredentialSeen("own", 0o600), "ok", "0600"),
        (CredentialSeen("x509", 0o644, 7200.0), "problem", "0644"),
        (CredentialSeen("x509", 0o600, -60.0), "problem", "clock"),
        (CredentialSeen("x509", problem="X509_USER_PROXY is not set"), "problem", "X509_USER_PROXY"),
    ],
)
def test_a_credential_must_arrive_closed_and_in_time(seen: CredentialSeen, verdict: str, words: str) -> None:
    ((judged, told),) = said("credentials", judge(expected(), replace(GOOD, credentials=(seen,))))
    assert (judged, words in told) == (verdict, True)


def test_a_node_without_authorities_is_warned_of_where_there_are_credentials() -> None:
    without = replace(GOOD, authorities="")
    assert [verdict for verdict, _ in said("credentials", judge(expected(), without))] == ["ok", "warning"]
    assert said("credentials", judge(expected(), replace(without, credentials=()))) == []
