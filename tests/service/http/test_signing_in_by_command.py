"""Give a token, sign in with it, use the service and revoke it: by commands, as people do."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cenote.cli.main import cli
from cenote.common.errors import CenoteError

from .conftest import OpenService


def said(*words: str, typed: str = "") -> Result:
    return CliRunner().invoke(cli, list(words), input=typed, standalone_mode=False)


def test_a_token_is_given_used_and_revoked(doors: OpenService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("CENOTE_TOKEN", raising=False)
    home = ("--service", str(doors.home.path))
    assert said("tokens", *home).output.strip() == "no tokens"
    token = said("tokens", "--create", "bob", "--group", "higgs", "--expires", "30d", *home).stdout.split()[-1]
    login = ("login", doors.url)
    refused = said(*login, typed=f"{token}\n").exception
    assert isinstance(refused, CenoteError)
    assert "not signed by a trusted authority" in str(refused)
    wrong = said(*login, "--fingerprint", doors.fingerprint, typed="nonsense\n").exception
    assert isinstance(wrong, CenoteError)
    assert wrong.problems[0].kind.name == "not-allowed"
    assert said(*login, "--fingerprint", doors.fingerprint, typed=f"{token}\n").exception is None
    assert said("pools", "--service", doors.url).stdout.strip() == "no pools"
    listed = said("tokens", *home).output
    assert "bob" in listed
    assert token not in listed
    assert said("page", *home).stdout.startswith(f"{doors.url}/#key=")
    assert said("tokens", "--revoke", token.split("_")[1], *home).exception is None
    assert isinstance(said("pools", "--service", doors.url).exception, CenoteError)
