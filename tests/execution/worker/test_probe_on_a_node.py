"""Test what a probe finds on its node, with folders, files and plugins as bad as they come."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from builders.strangers import Door, answer, what_strangers_get
from cenote.common.certificates.authority import identities_of
from cenote.execution.backends.interface import MeetingPoint
from cenote.execution.probe.listener import ReportListener
from cenote.execution.probe.node import gpu_models, hand_over, look_around, receive_credentials
from cenote.execution.probe.report import CredentialAsked, FileAsked, Question, as_line, as_word, from_word
from cenote.execution.worker.process.credentials import FILE, DeliveredCredential
from cenote.execution.worker.process.scratch import leave_scratch
from cenote.language.plugins.shipped import SourceFile
from cenote.testing.muons import write_muons

OURS = identities_of("probe")
HERE = MeetingPoint("127.0.0.1", range(1))


def question(tmp_path: Path, **asked: object) -> Question:
    return Question(**{"pool": "gpu", "token": "t", "folder": str(tmp_path), **asked})  # type: ignore[arg-type]


def test_a_question_survives_the_way_as_one_word(tmp_path: Path) -> None:
    file = FileAsked("d", "root://far/a.root", "root_tree", {"tree": "Events"}, "Muon_pt")
    asked = question(
        tmp_path, files=(file,), sources=(SourceFile("/o p/ops.py", "µ".encode("latin-1")),), packages=("numpy",)
    )

    word = as_word(asked)

    assert from_word(word) == asked
    assert not set(word) & set(" '\"$%\\")


def test_files_are_read_as_the_workflow_reads_them(tmp_path: Path) -> None:
    good = write_muons(tmp_path / "a.root", events=20)
    (tmp_path / "broken.root").write_bytes(b"no ROOT file at all")
    files = [
        FileAsked("good", str(good), "root_tree", {}, "MET_pt"),
        FileAsked("column", str(good), "root_tree", {}, "no_such_column"),
        FileAsked("tree", str(good), "root_tree", {"tree": "NoSuchTree"}),
        FileAsked("broken", str(tmp_path / "broken.root"), "root_tree"),
        FileAsked("missing", str(tmp_path / "b.root"), "root_tree"),
    ]

    seen = {file.dataset: file for file in look_around(question(tmp_path, files=tuple(files))).files}

    assert (seen["good"].entries, seen["good"].problem) == (20, "")
    assert "no_such_column" in seen["column"].problem
    assert "NoSuchTree" in seen["tree"].problem
    assert "broken.root" in seen["broken"].problem
    assert seen["missing"].problem == f"{tmp_path / 'b.root'} does not exist"


def test_plugins_that_fail_or_end_the_process_are_told_of(tmp_path: Path) -> None:
    sources = (
        SourceFile("/far/good.py", b"import beside_probed\n", target="/far/good.py", name="good"),
        SourceFile("/far/beside_probed.py", b"answer = 42\n", "beside_probed"),
        SourceFile("/far/bad.py", b"import no_such_package\n", target="/far/bad.py", name="bad"),
        SourceFile("/far/rude.py", b"import sys\nsys.exit(3)\n", target="/far/rude.py", name="rude"),
    )
    asked = tuple((name, None, None) for name in ("/far/good.py", "/far/bad.py", "/far/rude.py", "no_such_module"))

    found = look_around(question(tmp_path, plugins=asked, sources=sources)).plugins

    assert found[0].problem == ""
    assert "No module named 'no_such_package'" in found[1].problem
    assert found[2].problem.endswith("SystemExit: 3")
    assert "No module named 'no_such_module'" in found[3].problem


def test_folders_are_written_to_and_left_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    report = look_around(question(tmp_path, scratch="$NO_SUCH_VARIABLE/x"))
    assert report.folder.free > 0
    assert report.scratch.problem == "a variable in it is not set on this node"

    report = look_around(question(tmp_path / "missing", scratch=str(tmp_path / "to" / "be" / "made")))
    assert report.folder.problem == "it is not there"
    assert report.scratch.problem == ""
    assert list(tmp_path.iterdir()) == []


def test_a_probe_that_is_ended_while_it_writes_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[list[str]] = []
    monkeypatch.setattr(os, "fsync", lambda _: named.append(os.listdir(tmp_path)))  # noqa: PTH208

    look_around(question(tmp_path, scratch=str(tmp_path)))

    assert named == [[], []]  # scratch and the run's folder: whenever it is killed, no name is there


def test_packages_and_modules_that_are_missing_are_told_of(tmp_path: Path) -> None:
    report = look_around(question(tmp_path, packages=("numpy", "no-such-package"), modules=("json", "no_such_module")))

    assert report.packages["numpy"]
    assert report.packages["no-such-package"] is None
    assert [loaded.problem for loaded in report.modules] == [
        "",
        "ModuleNotFoundError: No module named 'no_such_module'",
    ]
    assert report.executable == sys.executable


def test_gpus_are_named_as_the_driver_of_the_node_names_them(tmp_path: Path) -> None:
    about = tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0/information"
    about.parent.mkdir(parents=True)
    about.write_text("Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ: 17\n")

    assert gpu_models(tmp_path) == ("NVIDIA A100-SXM4-40GB",)
    assert gpu_models(tmp_path / "elsewhere") == ()


@pytest.fixture
def identity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that a probe finds on its node."""
    file = tmp_path_factory.mktemp("private") / "identity" / "run.pem"
    OURS.workers.write(file)
    return file


def test_a_report_arrives_at_the_driver_and_that_of_a_stranger_does_not(tmp_path: Path, identity: Path) -> None:
    report = look_around(question(tmp_path))
    with ReportListener(HERE, OURS.driver) as driver:
        with socket.create_connection((driver.host, driver.port)):  # one who says nothing keeps nobody waiting
            assert hand_over(report, driver.host, driver.port, identity) == report
        assert driver.reports() == [report]
        door = Door(os.getpid(), driver.host, driver.port)
        assert answer(door, as_line(report).encode() + b"\n") == b""
        assert what_strangers_get(door) == []
        assert driver.reports() == []
    with ReportListener(HERE, identities_of("another").driver) as other:
        found = hand_over(report, other.host, other.port, identity).no_connection
        assert found.startswith("what answers there is not the driver of this run")
        assert other.reports() == []


def test_credentials_come_from_the_driver_and_go_with_the_probe(
    tmp_path: Path, identity: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TICKET", "")
    sent = DeliveredCredential("ticket", b"secret \xff", {"TICKET": FILE})
    with ReportListener(HERE, OURS.driver, {"gpu": [sent]}) as driver:
        asked = question(
            tmp_path,
            host=driver.host,
            port=driver.port,
            credentials=(CredentialAsked("ticket", "TICKET", time.time() + 60),),
        )
        assert receive_credentials(asked, identity) == ""
        file = Path(os.environ["TICKET"])
        assert (file.read_bytes(), file.is_relative_to(tmp_path)) == (b"secret \xff", True)
        (seen,) = look_around(asked).credentials
        assert (seen.mode, seen.problem, 0 < (seen.seconds_left or 0) <= 60) == (0o600, "", True)
        leave_scratch()
        assert list(tmp_path.glob("cenote-*")) == []
        assert look_around(asked).credentials[0].problem != ""
    stranger = tmp_path / "stranger" / "identity.pem"
    identities_of("another").workers.write(stranger)
    with ReportListener(HERE, OURS.driver, {"gpu": [sent]}) as driver:
        refused = receive_credentials(replace(asked, port=driver.port), stranger)
        assert refused != ""
        assert look_around(asked, undelivered=refused).credentials[0].problem == refused


def test_a_service_without_certificates_is_told_from_the_driver(tmp_path: Path, identity: Path) -> None:
    report = look_around(question(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"220 mail.example ESMTP\r\n")
                connection.recv(4096)

        greeting = threading.Thread(target=greet)
        greeting.start()
        found = hand_over(report, "127.0.0.1", server.getsockname()[1], identity).no_connection
        greeting.join()
    assert found.startswith("a different service answers there")


def test_a_driver_that_does_not_listen_is_out_of_reach(tmp_path: Path, identity: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        report = hand_over(look_around(question(tmp_path)), "127.0.0.1", taken.getsockname()[1], identity)

    assert report.no_connection == "Connection refused"


def test_a_node_that_does_not_see_the_certificate_says_so(tmp_path: Path) -> None:
    report = hand_over(look_around(question(tmp_path)), "127.0.0.1", 9, tmp_path / "run.pem")

    assert report.no_connection == f"the certificate {tmp_path / 'run.pem'} cannot be read: No such file or directory"


def test_workers_are_told_of_the_contact_where_there_is_one() -> None:
    def told(contact: str) -> tuple[str, bool]:
        with ReportListener(MeetingPoint("127.0.0.1", range(1), contact), OURS.driver) as desk:
            return desk.host, desk.port == 8786

    assert told("driver.example:8786") == ("driver.example", True)
    assert told("driver.example") == ("driver.example", False)


def test_the_first_free_port_is_taken() -> None:
    with ReportListener(MeetingPoint("127.0.0.1", range(1)), OURS.driver) as first:
        with pytest.raises(OSError, match="in use"):
            ReportListener(MeetingPoint("127.0.0.1", range(first.port, first.port + 1)), OURS.driver)
        with ReportListener(MeetingPoint("127.0.0.1", range(first.port, first.port + 50)), OURS.driver) as second:
            assert second.port > first.port
