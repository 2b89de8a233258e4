"""Test the command itself: its help, its mistakes, its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from cenote import __version__
from cenote.cli import main
from cenote.cli import main as command_list
from cenote.cli.main import COMMANDS
from cenote.common import errors


def test_every_command_has_a_module_and_the_same_short_help() -> None:
    for name, line in COMMANDS.items():
        command = import_module(f"cenote.cli.commands.{name}").command
        assert isinstance(command, click.Command)
        assert command.name == name
        assert line.endswith(".")
        assert len(line) < 70


def test_a_file_in_the_folder_is_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("run", "zebra", "check", "__init__"):
        (tmp_path / f"{name}.py").write_text(f'"""Does {name}."""\n')
    monkeypatch.setattr(command_list, "FOLDER", tmp_path)
    assert command_list._found() == {"check": "Does check.", "run": "Does run.", "zebra": "Does zebra."}


def test_help_lists_commands_and_exit_codes() -> None:
    result = CliRunner().invoke(main.cli, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)
    assert "Exit codes:" in result.output
    assert "130" in result.output


def test_version() -> None:
    assert CliRunner().invoke(main.cli, ["--version"]).output == f"cenote, version {__version__}\n"


def test_an_unknown_command_shows_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["chek", "flow.yaml"]) == 2
    told = capsys.readouterr().err
    assert "there is no command 'chek'" in told
    assert "hint: did you mean 'check'?" in told


def test_completion_names_commands_without_importing_them() -> None:
    found = ShellComplete(main.cli, {}, "cenote", "_CENOTE_COMPLETE").get_completions([], "s")
    assert [item.value for item in found] == ["simulate", "submit", "status", "store", "site", "schema", "serve"]
    assert found[2].help == COMMANDS["status"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_for_their_shell(shell: str) -> None:
    result = CliRunner().invoke(main.cli, ["completion", shell])
    assert result.exit_code == 0
    assert f"_CENOTE_COMPLETE={shell}_complete" in result.output


def raising(problem: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code when the command `schema` raises this."""

    def callback(**_: object) -> None:
        raise problem

    command = import_module("cenote.cli.commands.schema").command
    monkeypatch.setattr(command, "callback", callback)
    return main.exit_code_of(["schema"])


def test_our_errors_end_with_their_own_code_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = raising(
        errors.error(errors.UNKNOWN_POOL, "no pool provides 'gpus'", hint="did you mean 'gpu'?"), monkeypatch
    )
    told = capsys.readouterr().err
    assert code == 14
    assert told == "no pool provides 'gpus'\n  hint: did you mean 'gpu'?\n"


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    assert raising(KeyboardInterrupt(), monkeypatch) == 130


def test_a_fault_is_short_and_its_traceback_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("CENOTE_DEBUG", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert raising(ZeroDivisionError("one by none"), monkeypatch) == 70
    told = capsys.readouterr().err
    assert told.startswith("cenote: an unexpected ZeroDivisionError: one by none\n")
    assert "Traceback" not in told
    (kept,) = tmp_path.iterdir()
    assert str(kept) in told
    assert "ZeroDivisionError: one by none" in kept.read_text()


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CENOTE_DEBUG", "1")
    assert raising(ZeroDivisionError("one by none"), monkeypatch) == 70
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_fault() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", "from cenote.cli.main import main; main(['completion', 'bash'])"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (["check", "nothing.yaml"], 10, "missing-file"),
        (["plan", "nothing.yaml"], 10, "missing-file"),
        (["run", "nothing.yaml"], 10, "missing-file"),
        (["run", "nothing.yaml", "--dry-run"], 10, "missing-file"),
        (["simulate", "nothing.yaml"], 10, "missing-file"),
        (["status", "nothing"], 2, "no-run"),
    ],
)
def test_with_json_a_command_that_cannot_answer_says_so_in_json(
    arguments: list[str],
    code: int,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.exit_code_of([*arguments, "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert [problem["kind"] for problem in told["problems"]] == [kind]
