"""Test `cenote credentials`: facts and problems of what a workflow names, or of what there is; never the contents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from builders.credentials import GridAuthority, TokenIssuer, write_token
from cenote.cli.main import cli
from cenote.common.credential_files import places
from cenote.common.errors import BAD_CREDENTIAL, NO_CREDENTIAL, CenoteError

FLOW = """\
data: {datasets: [{name: d, files: [a.root]}]}
analysis: {stages: [{id: Define, op: define, params: {variables: {y: x}}}]}
execution:
  backend: dask
  credentials:
    - x509
    - {type: scitokens, path: token, scope: storage.read:/cms}
  pools:
    default: {workers: 1}
    gpu: {workers: 1, credentials: [{type: x509, voms: /atlas, renew: login --password hunter2}]}
    free: {workers: 1, credentials: none}
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> GridAuthority:
    return GridAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def folder(authority: GridAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a proxy of CMS and a token for all data, which nothing names yet."""
    authority.proxy(tmp_path / "proxy", voms="/cms/Role=NULL")
    write_token(tmp_path / "token", TokenIssuer("https://127.0.0.1:1").token())
    (tmp_path / "flow.yaml").write_text(FLOW)
    for name in ("X509_USER_PROXY", "BEARER_TOKEN", "BEARER_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(places, "usual_proxy", lambda: tmp_path / "x509up")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("X509_CERT_DIR", str(authority.directory))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cenote(*words: str) -> Result:
    return CliRunner().invoke(cli, ["credentials", *words], standalone_mode=False)


def code_of(result: Result) -> int:
    return result.exception.exit_code if isinstance(result.exception, CenoteError) else result.return_value


def test_a_workflow_shows_what_each_pool_gets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X509_USER_PROXY", str(folder / "proxy"))
    shown = cenote("flow.yaml")
    assert code_of(shown) == BAD_CREDENTIAL.exit_code
    words = ("x509 (default) can be used", "scitokens (default) can be used", "x509 (gpu) cannot be used")
    assert [one for one in words if one not in shown.output] == []
    facts = ("/O=Cenote Test/CN=Ada Muon", "/cms/Role=NULL", "storage.read:/", str(folder / "proxy"), "in 11h 59m")
    assert [one for one in facts if one not in shown.output] == []
    assert "flow.yaml:10:37: " in shown.output, "the place of the entry that lacks /atlas"
    assert "free" not in shown.output


def test_nothing_that_is_secret_is_printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X509_USER_PROXY", str(folder / "proxy"))
    monkeypatch.setenv("BEARER_TOKEN", (folder / "token").read_text().strip())
    shown = "".join(cenote(*words).output for words in (["flow.yaml"], ["flow.yaml", "--json"], [], ["--json"]))
    assert "Ada Muon" in shown
    lines = (folder / "proxy").read_text().splitlines()
    parts = (folder / "token").read_text().strip().split(".")
    assert [secret for secret in [*lines, *parts, "hunter2"] if secret in shown] == []


def test_json_has_the_same_for_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X509_USER_PROXY", str(folder / "proxy"))
    told = json.loads(cenote("flow.yaml", "--json").output)
    assert told["ok"] is False
    first, second, third = told["credentials"]
    assert (first["type"], first["pools"], first["problems"]) == ("x509", ["default"], [])
    assert first["subject"] == "/O=Cenote Test/CN=Ada Muon"
    assert 0 < first["seconds_left"] <= 12 * 3600
    assert (second["type"], second["details"]["scope"]) == ("scitokens", "storage.read:/")
    assert (third["pools"], third["renews"]) == (["gpu"], True)
    assert [problem["kind"] for problem in third["problems"]] == ["bad-credential"]
    assert third["problems"][0]["line"] == 10


def test_without_a_workflow_what_is_missing_is_no_problem(folder: Path, authority: GridAuthority) -> None:
    nothing = cenote()
    assert code_of(nothing) == 0
    assert nothing.output.count("not found") == 2
    authority.proxy(folder / "x509up")
    shown = cenote()
    assert (code_of(shown), "x509 can be used" in shown.output) == (0, True)
    authority.proxy(folder / "x509up", lifetime=-60)
    expired = cenote()
    assert (code_of(expired), "x509 cannot be used" in expired.output) == (BAD_CREDENTIAL.exit_code, True)


def test_a_workflow_needs_what_it_names(folder: Path) -> None:
    del folder
    assert code_of(cenote("flow.yaml")) == NO_CREDENTIAL.exit_code


def test_a_workflow_that_names_none_has_none(folder: Path) -> None:
    (folder / "flow.yaml").write_text(FLOW[: FLOW.index("  credentials")])
    shown = cenote("flow.yaml")
    assert (code_of(shown), "names none" in shown.output) == (0, True)


def test_options_that_change_a_workflow_need_one() -> None:
    assert code_of(cenote("--backend", "dask")) == 2
