"""A worker that cannot start says why in one line: it is all that the user gets to see of it."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from cenote.common import shell
from cenote.common.certificates.authority import identities_of
from cenote.execution.start_failures import StartFailure

NOWHERE = "tls://127.0.0.1:9"
UNKNOWN = "tls://no-such-host.invalid:9"


def worker(folder: Path, *options: str) -> shell.FinishedProcess:
    command = [
        sys.executable,
        "-m",
        "cenote.execution.worker.process.start",
        "",
        "cenote.execution.backends.dask.worker",
    ]
    command += ["--scheduler", NOWHERE, "--name", "default-1"]
    return shell.run_command([*command, "--pool", "default", "--log", str(folder / "log"), *options], seconds=60)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--interface", "ib7"], 1, "this worker could not start: 'ib7' is not a valid network interface."),
        (["--patience", "1", "--scheduler", UNKNOWN], 97, f"this worker could not start: no way to {UNKNOWN}: "),
        (["--patience", "1"], 97, f"nothing answered at {NOWHERE} for 1 s: this node does not reach the driver"),
    ],
)
def test_the_reason_is_one_line_and_no_traceback(tmp_path: Path, options: list[str], code: int, words: str) -> None:
    identity = tmp_path / "identity" / "run.pem"
    identities_of("run").workers.write(identity)
    ended = worker(tmp_path, "--identity", str(identity), *options)

    assert ended.returncode == code
    (line,) = ended.stderr.splitlines()
    assert line.startswith(words)


@pytest.mark.parametrize(
    ("written", "words"), [(None, "No such file or directory"), ("nonsense\n", "it holds no certificate")]
)
def test_a_worker_without_its_certificate_says_so(tmp_path: Path, written: str | None, words: str) -> None:
    identity = tmp_path / "run.pem"
    if written is not None:
        identity.write_text(written)
    ended = worker(tmp_path, "--identity", str(identity))

    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert f"cannot read its certificate {identity}" in line
    assert words in line


def test_a_worker_without_a_folder_of_its_own_does_not_use_one_that_others_can_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = tmp_path / "identity" / "run.pem"
    identities_of("run").workers.write(identity)
    monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", str(identity))  # no folder
    ended = worker(tmp_path, "--identity", str(identity))

    assert ended.returncode == 1
    assert ended.stderr.startswith("this worker could not start: no folder for temporary files")


def test_a_worker_that_does_not_fit_ends_with_a_code_of_its_own_before_it_reads_anything() -> None:
    command = [
        sys.executable,
        "-m",
        "cenote.execution.worker.process.start",
        "python=2.7.18",
        "cenote.execution.backends.dask.worker",
    ]
    ended = shell.run_command([*command, "--what", "another version might be told"], seconds=60)

    assert ended.returncode == StartFailure.OTHER_SOFTWARE.value.code
    first, *_ = ended.stderr.splitlines()
    here = platform.python_version()
    words = f"its software does not fit the driver's: it has Python {here} (the driver has 2.7.18)"
    assert first.startswith(f"this worker was turned away: {words}")
