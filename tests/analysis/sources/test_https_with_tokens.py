"""Test which servers get the user's token, and what is said where it does not help."""

from __future__ import annotations

import ssl
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from fsspec.implementations.http import HTTPFileSystem

from builders.credentials import GridAuthority, TokenIssuer, write_token
from builders.file_servers import FileServer
from cenote.analysis.sources.root_tree import RootTreeSource
from cenote.common import errors
from cenote.common.errors import CenoteError
from cenote.testing.muons import write_muons

ISSUER = TokenIssuer("https://issuer.test")
TOKEN = ISSUER.token()
Serving = Callable[[FileServer], AbstractContextManager[FileServer]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> GridAuthority:
    return GridAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_muons(folder / "a.root", events=100)
    return folder


@pytest.fixture(scope="module")
def encrypted(authority: GridAuthority) -> Serving:
    """Serve as a host of this authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.host().write(authority.folder, "host"))
    return lambda server: server.serving(context)


@pytest.fixture(autouse=True)
def surroundings(authority: GridAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The grid's authorities, a token in a file, and connections of this test alone."""
    monkeypatch.setenv("X509_CERT_DIR", str(authority.directory))
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(write_token(tmp_path / "token", TOKEN)))
    monkeypatch.delenv("BEARER_TOKEN", raising=False)
    HTTPFileSystem.clear_instance_cache()
    yield
    HTTPFileSystem.clear_instance_cache()


def with_token(shown: str) -> bool:
    return shown == f"Bearer {TOKEN}"


def entries(server: FileServer) -> int:
    return RootTreeSource().describe(f"{server.url}/a.root").entries


def refusal_of(server: FileServer) -> str:
    with pytest.raises(CenoteError) as raised:
        entries(server)
    whole = "".join(traceback.format_exception(raised.value)) + repr(raised.value.__cause__)
    assert TOKEN.rpartition(".")[2] not in whole
    return str(raised.value)


def test_a_server_that_asks_for_a_token_gets_it_and_is_asked_with_it_from_then_on(
    files: Path, encrypted: Serving
) -> None:
    with encrypted(FileServer(files, with_token)) as server:
        assert entries(server) == 100
    assert server.shown[0] == ""
    assert len(server.shown) > 2
    assert all(with_token(shown) for shown in server.shown[1:])


def test_a_server_that_refuses_with_403_gets_it_too(files: Path, encrypted: Serving) -> None:
    with encrypted(FileServer(files, with_token, refusal=403)) as server:
        assert entries(server) == 100


def test_a_public_server_never_sees_the_token(files: Path, encrypted: Serving) -> None:
    with encrypted(FileServer(files)) as server:
        assert entries(server) == 100
    assert set(server.shown) == {""}


def test_a_server_without_encryption_never_sees_the_token(files: Path) -> None:
    with FileServer(files, with_token).serving() as server:
        assert "401" in refusal_of(server)
    assert set(server.shown) == {""}


def test_after_a_redirection_the_token_travels_encrypted_or_not_at_all(files: Path, encrypted: Serving) -> None:
    with encrypted(FileServer(files, with_token)) as good, FileServer(files, with_token).serving() as bad:
        with encrypted(FileServer(files, with_token, elsewhere=good.url)) as first:
            assert entries(first) == 100
        with encrypted(FileServer(files, with_token, elsewhere=bad.url)) as second:
            assert "401" in refusal_of(second)
    assert with_token(good.shown[-1])
    assert set(bad.shown) == {""}


def test_a_renewed_token_counts_at_once(files: Path, encrypted: Serving, tmp_path: Path) -> None:
    renewed = ISSUER.token()
    valid = {f"Bearer {TOKEN}"}
    with encrypted(FileServer(files, valid.__contains__)) as server:
        assert entries(server) == 100
        valid.clear()
        valid.add(f"Bearer {renewed}")
        write_token(tmp_path / "token", renewed)
        (files / "b.root").write_bytes((files / "a.root").read_bytes())
        assert RootTreeSource().describe(f"{server.url}/b.root").entries == 100


def test_a_token_that_others_can_read_stays_here_and_the_error_says_why(
    files: Path, encrypted: Serving, tmp_path: Path
) -> None:
    (tmp_path / "token").chmod(0o644)
    with encrypted(FileServer(files, with_token)) as server:
        told = refusal_of(server)
    assert set(server.shown) == {""}
    assert "0644" in told
    assert "chmod 600" in told


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (lambda: ISSUER.token(starts=-600, lifetime=-300), "ended "),
        (lambda: ISSUER.token(scope="storage.read:/elsewhere"), "storage.read:/elsewhere"),
        (lambda: ISSUER.token(audience="https://other.test"), "https://other.test"),
        (lambda: "no token", "holds no token"),
    ],
)
def test_a_refusal_says_what_is_known_of_the_token(
    files: Path, encrypted: Serving, tmp_path: Path, token: Callable[[], str], words: str
) -> None:
    write_token(tmp_path / "token", token())
    with encrypted(FileServer(files, lambda _: False)) as server:
        told = refusal_of(server)
    assert f"{server.url}/a.root" in told
    assert str(tmp_path / "token") in told
    assert words in told


def test_a_refusal_without_any_token_says_where_one_was_looked_for(
    files: Path, encrypted: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BEARER_TOKEN_FILE")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with encrypted(FileServer(files, with_token)) as server:
        told = refusal_of(server)
    assert str(tmp_path / "bt_u") in told
    assert "execution.credentials" in told
    assert "proxy" not in told


def test_a_server_of_an_authority_that_is_not_trusted_is_not_read(
    files: Path, encrypted: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("X509_CERT_DIR", str(GridAuthority(tmp_path / "other", "Other CA").directory))
    with encrypted(FileServer(files)) as server:
        told = refusal_of(server)
    assert "no authority that is trusted" in told
    assert server.shown == []


def test_a_file_that_the_server_does_not_have_does_not_exist(files: Path, encrypted: Serving) -> None:
    with encrypted(FileServer(files, with_token)) as server, pytest.raises(CenoteError, match="does not exist"):
        RootTreeSource().describe(f"{server.url}/missing.root")


def test_a_refusal_in_the_middle_of_a_run_is_one_of_the_run(files: Path, encrypted: Serving) -> None:
    with encrypted(FileServer(files, lambda _: False)) as server, pytest.raises(CenoteError) as raised:
        RootTreeSource().read(f"{server.url}/a.root", ["MET_pt"], 0, 10)
    [problem] = raised.value.problems
    assert problem.kind is errors.UNREADABLE_INPUT
    assert "of ada" in problem.details[0]
