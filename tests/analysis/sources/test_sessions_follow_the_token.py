"""Test that every token has an XRootD session of its own: servers never look at a newer one."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.credentials import TokenIssuer, write_token

pytest.importorskip("fsspec_xrootd", reason="the XRootD client is not installed")

ISSUER = TokenIssuer()


def test_a_new_token_gets_a_new_name_and_the_first_the_users_own(tmp_path: Path) -> None:
    from cenote.analysis.sources.support.xrootd import SessionNames

    names = SessionNames()
    environ = {"BEARER_TOKEN_FILE": str(tmp_path / "token")}
    assert names.name(environ) == "", "there is none yet"
    write_token(tmp_path / "token", ISSUER.token())
    assert names.name(environ) == ""
    write_token(tmp_path / "token", ISSUER.token())
    second = names.name(environ)
    assert second.endswith("01@")
    assert len(second) <= 9
    assert names.name(environ) == second
    write_token(tmp_path / "token", ISSUER.token())
    assert names.name(environ).endswith("02@")


def test_a_token_in_a_variable_needs_no_name() -> None:
    from cenote.analysis.sources.support.xrootd import SessionNames

    assert SessionNames().name({"BEARER_TOKEN": ISSUER.token()}) == ""


def test_addresses_have_the_name_of_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    from cenote.analysis.sources.support import xrootd
    from cenote.analysis.sources.support.files import remote_options

    monkeypatch.setattr(xrootd, "session_names", xrootd.SessionNames())
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.delenv("BEARER_TOKEN", raising=False)
    for scheme in ("root", "roots"):
        url = f"{scheme}://localhost:1//a.root"
        files, path = fsspec.core.url_to_fs(url, **remote_options(url))
        write_token(tmp_path / "token", ISSUER.token())
        before = files.unstrip_protocol(path)
        write_token(tmp_path / "token", ISSUER.token())
        after = files.unstrip_protocol(path)
        assert after != before
        assert after.startswith(f"{scheme}://")
        assert after.endswith("@localhost:1//a.root")
        assert files.unstrip_protocol(after) == after
        assert str(files._myclient.url).startswith(after.removesuffix("/a.root"))
        own = f"{scheme}://ada@localhost:1//a.root"
        theirs, path = fsspec.core.url_to_fs(own)
        assert theirs.unstrip_protocol(path) == own, "a name that someone wrote stays"
