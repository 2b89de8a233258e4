"""The unit that `cenote serve --systemd` prints is one that systemd takes."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cenote.cli.commands.serve import command
from cenote.common.shell import run_command


def printed(*words: str) -> str:
    done = CliRunner().invoke(command, [*words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("whose", ["user", "system"])
def test_systemd_finds_nothing_wrong_with_it(whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if (analyse := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed")
    home = tmp_path / 'a "name" with % and $HOME'
    unit = tmp_path / "cenote.service"
    unit.write_text(printed("my pools.yaml", "--home", str(home), "--systemd", whose))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    checked = run_command([analyse, f"--{whose}", "verify", str(unit)], seconds=60)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_it_starts_this_python_in_private_and_lets_workers_outlive_a_restart(tmp_path: Path) -> None:
    lines = printed("--home", str(tmp_path), "--systemd", "user").splitlines()
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    assert start.startswith(f"ExecStart={sys.executable} ")
    assert start.endswith(f" -m cenote serve --home {tmp_path}")
    assert {"UMask=0077", "Restart=on-failure", "KillMode=process"} <= set(lines)
    assert f"Environment=PATH={os.environ['PATH']}" in lines


def test_it_listens_for_others_as_the_command_says(tmp_path: Path) -> None:
    for name in ("site.pem", "key.pem"):
        (tmp_path / name).touch()
    files = ("--certificate", str(tmp_path / "site.pem"), "--key", str(tmp_path / "key.pem"))
    words = ("--listen", "pools.example.org:8443", *files)
    lines = printed("--home", str(tmp_path), *words, "--systemd", "user").splitlines()
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    assert start.endswith(f" --home {tmp_path} {' '.join(words)}")
