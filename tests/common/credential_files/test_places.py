"""Test where proxies, tokens and authorities are looked for, and what files they may be."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from cenote.common.credential_files import places
from cenote.common.credential_files.places import (
    LARGEST_FILE,
    CredentialFileError,
    TokenPlace,
    file_faults,
    find_authorities,
    find_proxy,
    find_token,
    read_file,
    time_faults,
)

SECRET = "header.claims.signature"


def test_a_proxy_is_where_its_variable_says_even_if_nothing_is_there() -> None:
    assert find_proxy({"X509_USER_PROXY": "/nowhere/proxy"}) == Path("/nowhere/proxy")


def test_a_proxy_is_in_the_usual_place_if_one_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = tmp_path / "x509up_u1000"
    monkeypatch.setattr(places, "usual_proxy", lambda: usual)
    assert find_proxy({}) is None
    usual.touch()
    assert find_proxy({}) == usual


def test_tokens_are_looked_for_in_the_order_of_wlcg(tmp_path: Path) -> None:
    usual = tmp_path / f"bt_u{os.geteuid()}"
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert find_token(environ) is None
    usual.write_text(SECRET)
    assert find_token(environ) == TokenPlace(path=usual)
    environ["BEARER_TOKEN_FILE"] = "/nowhere/token"
    assert find_token(environ) == TokenPlace("BEARER_TOKEN_FILE", Path("/nowhere/token"))
    environ["BEARER_TOKEN"] = f" {SECRET}\n"
    found = find_token(environ)
    assert found == TokenPlace("BEARER_TOKEN", text=SECRET)
    assert found is not None
    assert found.read() == SECRET
    assert SECRET not in f"{found!r} {found}"


def test_a_token_in_a_file_is_read_without_the_space_around_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"\n {SECRET} \n")
    assert TokenPlace(path=file).read() == SECRET


def test_a_folder_of_authorities_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_authorities({"X509_CERT_DIR": str(tmp_path)}) == tmp_path
    assert find_authorities({"X509_CERT_DIR": str(tmp_path / "nowhere")}) is None
    monkeypatch.setattr(places, "AUTHORITIES", (tmp_path / "nowhere", tmp_path))
    assert find_authorities({}) == tmp_path


def test_what_is_no_file_of_a_credential_is_said(tmp_path: Path) -> None:
    pipe, large, blob = tmp_path / "pipe", tmp_path / "large", tmp_path / "blob"
    os.mkfifo(pipe)
    large.write_bytes(b"x" * (LARGEST_FILE + 1))
    blob.write_bytes(b"\xff\xfe")
    for path, words in (
        (tmp_path / "nowhere", "does not exist"),
        (tmp_path, "folder"),
        (pipe, "not a regular file"),
        (large, "too large"),
    ):
        with pytest.raises(CredentialFileError, match=words):
            read_file(path)
    with pytest.raises(CredentialFileError, match="no token"):
        TokenPlace(path=blob).read()


@pytest.mark.parametrize(("mode", "faults"), [(0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1), (0o620, 1)])
def test_a_file_that_others_can_read_or_write_is_at_fault(tmp_path: Path, mode: int, faults: int) -> None:
    file = tmp_path / "file"
    file.touch()
    file.chmod(mode)
    found = file_faults(file)
    assert len(found) == faults
    assert all(f"{mode:04o}" in one.what and "chmod 600" in (one.hint or "") for one in found)


def test_the_command_that_closes_it_can_be_typed_whatever_its_name(tmp_path: Path) -> None:
    file = tmp_path / "my proxy $(touch x)"
    file.touch(0o644)
    (found,) = file_faults(file)
    assert shlex.split(found.hint or "") == ["chmod", "600", str(file)]


def test_a_folder_in_the_place_of_a_file_is_not_to_be_closed(tmp_path: Path) -> None:
    assert file_faults(tmp_path) == [], "reading it says that it is a folder"


def test_times_are_judged_on_both_sides() -> None:
    assert time_faults(0.0, 100.0, 50.0, renewal="") == []
    assert time_faults(None, None, 50.0, renewal="") == []
    [late] = time_faults(0.0, 100.0, 400.0, renewal="get another")
    assert (late.what.startswith("ended 5m ago"), late.hint) == (True, "get another")
    [early] = time_faults(700.0, 900.0, 100.0, renewal="get another")
    assert early.what.startswith("begins in 10m")
