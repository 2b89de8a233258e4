"""Real XRootD servers that ask for proxies and for tokens: the numbers of the same files, or what is wrong."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cenote
from builders.credentials import GridAuthority, TokenIssuer, write_token
from cenote.common.errors import CenoteError
from cenote.testing.muons import write_muons

from .storage_servers import ProtectedStorage, protected_storage, redirecting_server

FLOW = """
data: {{datasets: [{{name: d, files: ["{address}a.root", "{address}b.root"]}}]}}
analysis:
  stages:
    - id: MuonPt
      op: hep.hist
      render: []
      params: {{axes: [{{name: pt, source: Muon_pt, bins: {{nbins: 30, low: 0, high: 150}}}}]}}
"""


@pytest.fixture(scope="module")
def storage() -> Iterator[ProtectedStorage]:
    with protected_storage() as found:
        for number, name in enumerate(("a.root", "b.root")):
            write_muons(found.data / name, events=1000, seed=number)
        yield found


def typed(
    storage: ProtectedStorage, folder: Path, address: str, *words: str, **variables: str | Path
) -> subprocess.CompletedProcess[str]:
    """`cenote` with a workflow that reads from this address, by a user with these variables."""
    (folder / "flow.yaml").write_text(FLOW.format(address=address))
    return subprocess.run(
        [sys.executable, "-m", "cenote", words[0], "flow.yaml", *words[1:]],
        cwd=folder,
        env=storage.surroundings(CENOTE_CACHE=folder / "cache", **variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("address", "more"),
    [
        (lambda found: found.by_proxy.root, ("--workers", "2")),
        (lambda found: found.by_token.root, ("--workers", "2")),
        (lambda found: found.by_token.roots, ()),
        (lambda found: found.by_token.https, ()),
    ],
    ids=["proxy-root", "token-root", "token-roots", "token-https"],
)
def test_protected_files_give_the_same_numbers(
    storage: ProtectedStorage,
    tmp_path: Path,
    address: Callable[[ProtectedStorage], str],
    more: tuple[str, ...],
) -> None:
    mine = {
        "X509_USER_PROXY": storage.authority.proxy(),
        "BEARER_TOKEN_FILE": write_token(tmp_path / "token", storage.issuer.token()),
    }
    far = typed(storage, tmp_path, address(storage), "run", "--out", "far", *more, **mine)
    near = typed(storage, tmp_path, f"{storage.data}/", "run", "--out", "near")
    assert (far.returncode, near.returncode) == (0, 0), far.stderr + near.stderr
    first, second = (cenote.open_run(tmp_path / name).product("MuonPt") for name in ("far", "near"))
    assert first == second
    assert first.sum(flow=True) > 0


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (lambda _: {}, ("proxy: none", "X509_USER_PROXY", "execution.credentials")),
        (lambda found: {"X509_USER_PROXY": found.authority.proxy(lifetime=-300)}, ("CN=Ada Muon ended 5m",)),
        (
            lambda found: {"X509_USER_PROXY": GridAuthority(found.authority.folder / "impostor").proxy()},
            ("is forged",),
        ),
        (
            lambda found: {"X509_USER_PROXY": found.authority.proxy(), "X509_CERT_DIR": "/nowhere"},
            ("authorities: none", "/nowhere"),
        ),
    ],
    ids=["missing", "expired", "forged", "no-authorities"],
)
def test_a_server_that_refuses_a_proxy_is_explained(
    storage: ProtectedStorage,
    tmp_path: Path,
    variables: Callable[[ProtectedStorage], dict[str, str | Path]],
    words: tuple[str, ...],
) -> None:
    refused = typed(storage, tmp_path, storage.by_proxy.root, "check", **variables(storage))
    assert refused.returncode == 11
    assert f"{storage.by_proxy.root}a.root" in refused.stderr
    assert all(word in refused.stderr for word in words), refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (lambda issuer: issuer.token(starts=-600, lifetime=-300), "ended 5m"),
        (lambda issuer: issuer.token(scope="storage.read:/elsewhere"), "lacks the scope storage.read:/a.root"),
        (lambda issuer: issuer.token(audience="https://elsewhere.test"), "for https://elsewhere.test"),
        (lambda issuer: issuer.token(signed_by=TokenIssuer()), "of ada"),
    ],
    ids=["expired", "scope", "audience", "forged"],
)
def test_a_server_that_refuses_a_token_is_explained(
    storage: ProtectedStorage, tmp_path: Path, token: Callable[[TokenIssuer], str], words: str
) -> None:
    mine = token(storage.issuer)
    file = write_token(tmp_path / "token", mine)
    refused = typed(storage, tmp_path, storage.by_token.root, "check", BEARER_TOKEN_FILE=file)
    assert refused.returncode == 11
    assert f"token: {file}" in refused.stderr
    assert words in refused.stderr
    assert mine.rpartition(".")[2] not in refused.stderr


@pytest.fixture(params=["direct", "redirected"])
def address(request: pytest.FixtureRequest, storage: ProtectedStorage) -> Iterator[str]:
    """Of the server that wants tokens, or of one that redirects to it."""
    if request.param == "direct":
        yield storage.by_token.root
        return
    with tempfile.TemporaryDirectory(prefix="cenote-storage-") as name:
        Path(name).chmod(0o755)
        with redirecting_server(storage.by_token, Path(name)) as server:
            yield server.root


SESSIONS = """
import sys
from pathlib import Path
from cenote.analysis.sources.root_tree import RootTreeSource

address, mine, new = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
source = RootTreeSource()
assert [source.describe(f"{address}{name}").entries for name in ("a.root", "b.root")] == [1000, 1000]
print("first", flush=True)
sys.stdin.readline()
new.replace(mine)
assert source.describe(f"{address}c.root").entries == 1000
assert source.read(f"{address}a.root", ["MET_pt"], 0, 1000)["MET_pt"].size == 1000
"""


def test_a_new_token_begins_a_new_session(storage: ProtectedStorage, address: str, tmp_path: Path) -> None:
    """Servers look only at the token that a session began with, until long after its end.

    In a process of its own: XRootD's client reads the folder of authorities once, and other tests have others.
    """
    token = write_token(tmp_path / "token", storage.issuer.token())
    new = write_token(tmp_path / "new", storage.issuer.token())
    (storage.data / "c.root").write_bytes((storage.data / "a.root").read_bytes())

    def logins() -> int:
        return storage.by_token.log.read_text().count("login as ada")

    with subprocess.Popen(
        [sys.executable, "-c", SESSIONS, address, str(token), str(new)],
        env=storage.surroundings(BEARER_TOKEN_FILE=token),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        assert reader.stdout.readline() == "first\n"
        before = logins()
        reader.stdin.write("go on\n")
        reader.stdin.close()
        assert reader.wait(120) == 0
    assert logins() == before + 1


BAD_PROXIES: dict[str, Callable[[ProtectedStorage, Path], object]] = {
    "there is no proxy": lambda _found, _at: None,
    "ended ": lambda found, at: found.authority.proxy(at, lifetime=-300),
    "mode 0644": lambda found, at: found.authority.proxy(at, mode=0o644),
    "is forged": lambda _found, at: GridAuthority(at.parent / "impostor").proxy(at),
}
BAD_TOKENS: dict[str, Callable[[TokenIssuer, Path], object]] = {
    "there is no token": lambda _issuer, _at: None,
    "ended ": lambda issuer, at: write_token(at, issuer.token(starts=-600, lifetime=-300)),
    "mode 0644": lambda issuer, at: write_token(at, issuer.token(), mode=0o644),
    "lacks the scope storage.read:/": lambda issuer, at: write_token(at, issuer.token(scope="storage.modify:/")),
    "is forged": lambda issuer, at: write_token(at, issuer.token(signed_by=TokenIssuer())),
}


@pytest.mark.parametrize("words", BAD_PROXIES)
def test_a_proxy_that_is_no_use_is_refused_before_anything_is_submitted(
    storage: ProtectedStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    BAD_PROXIES[words](storage, tmp_path / "mine")
    settings = f"{{type: x509, path: {tmp_path / 'mine'}}}"
    assert words in refusal_of(storage, tmp_path, monkeypatch, storage.by_proxy.root, settings)


@pytest.mark.parametrize("words", BAD_TOKENS)
def test_a_token_that_is_no_use_is_refused_before_anything_is_submitted(
    storage: ProtectedStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """The issuer is a real server, which is asked for its keys."""
    BAD_TOKENS[words](storage.issuer, tmp_path / "mine")
    settings = f"{{type: scitokens, path: {tmp_path / 'mine'}, scope: 'storage.read:/'}}"
    assert words in refusal_of(storage, tmp_path, monkeypatch, storage.by_token.root, settings)


def refusal_of(
    storage: ProtectedStorage, folder: Path, monkeypatch: pytest.MonkeyPatch, address: str, credential: str
) -> str:
    """What is said of a run on Slurm, of which there is no folder afterwards."""
    monkeypatch.setenv("X509_CERT_DIR", str(storage.authority.directory))
    (folder / "flow.yaml").write_text(FLOW.format(address=address))
    workflow = cenote.load(
        folder / "flow.yaml", backend="dask", strategy="slurm", sets=[f"execution.credentials=[{credential}]"]
    )
    with pytest.raises(CenoteError) as raised:
        workflow.run(folder / "out")
    assert raised.value.exit_code == 36
    assert not (folder / "out").exists()
    return str(raised.value)
