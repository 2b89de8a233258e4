"""What is wrong with a credential is said with its place before anything is written; plans only warn."""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

import cenote
from builders.credentials import GridAuthority, TokenIssuer, write_token
from builders.file_servers import FileServer
from cenote.common.errors import BAD_CREDENTIAL, NO_CREDENTIAL, CenoteError

from ..conftest import Desk

FLOW = """
plugins: [ops.py]
data: {datasets: [{name: d, files: [a.root]}]}
analysis: {stages: [{id: Show, op: custom.show}]}
execution:
  credentials:
    - {type: KIND, path: mine, SETTINGS}
  pools: {default: {workers: 1}}
"""
OPERATION = """
import hashlib, os, stat
from pathlib import Path

from cenote import operation


@operation("custom.show", scope="run", reads=["MET_pt"], product="object")
def show(events):
    file = Path(os.environ["X509_USER_PROXY"])
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return {"digest": digest, "mode": stat.S_IMODE(file.stat().st_mode), "file": str(file)}
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> GridAuthority:
    return GridAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def user(desk: Desk, authority: GridAuthority, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk.muons("a.root", events=10)
    desk.write("ops.py", OPERATION)
    monkeypatch.setenv("X509_CERT_DIR", str(authority.directory))
    monkeypatch.chdir(desk.folder)
    return desk


def flow(user: Desk, kind: str, settings: str = "minimum_lifetime: 0") -> cenote.Analysis:
    file = user.write("flow.yaml", FLOW.replace("KIND", kind).replace("SETTINGS", settings))
    return cenote.load(file.name, backend="dask")


def missing(authority: GridAuthority, file: Path) -> None:
    """There is none."""


def expired(authority: GridAuthority, file: Path) -> None:
    authority.proxy(file, lifetime=-60)


def forged(authority: GridAuthority, file: Path) -> None:
    GridAuthority(authority.folder / "forger").proxy(file)


def open_to_others(authority: GridAuthority, file: Path) -> None:
    authority.proxy(file, mode=0o644)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (missing, NO_CREDENTIAL, "no proxy"),
        (expired, BAD_CREDENTIAL, "ended"),
        (forged, BAD_CREDENTIAL, "forged"),
        (open_to_others, BAD_CREDENTIAL, "0644"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "probe"])
def test_a_proxy_that_is_no_use_ends_a_run_before_it_begins(
    user: Desk,
    authority: GridAuthority,
    make: Callable[[GridAuthority, Path], None],
    kind: cenote.common.errors.ErrorKind,
    words: str,
    verb: str,
) -> None:
    make(authority, user.folder / "mine")
    analysis = flow(user, "x509")
    with pytest.raises(CenoteError) as raised:
        getattr(analysis, verb)("out")
    (problem,) = raised.value.problems
    assert (problem.kind, words in problem.message) == (kind, True)
    assert str(problem.place) == "flow.yaml:7:7"
    assert not (user.folder / "out").exists()
    if verb == "run":
        assert any(words in warning and "flow.yaml:7:7" in warning for warning in analysis.plan().warnings)


def test_a_token_without_the_right_scope_ends_a_run_before_it_begins(user: Desk) -> None:
    write_token(user.folder / "mine", TokenIssuer("https://127.0.0.1:1").token(scope="storage.read:/atlas"))
    with pytest.raises(CenoteError) as raised:
        flow(user, "scitokens", "scope: 'storage.read:/cms'").run("out")
    (problem,) = raised.value.problems
    assert "storage.read:/cms" in problem.message


def test_a_run_renews_what_is_of_no_use_and_a_plan_does_not(user: Desk, authority: GridAuthority) -> None:
    authority.proxy(user.folder / "mine", lifetime=-60)
    authority.proxy(user.folder / "next")
    analysis = flow(user, "x509", "renew: mv next mine")
    assert any("ended" in warning for warning in analysis.plan().warnings)
    assert analysis.run("out").status == "succeeded"
    authority.proxy(user.folder / "mine", lifetime=-60)
    with pytest.raises(CenoteError) as raised:
        flow(user, "x509", "renew: mv next mine").run("out")
    told = "\n".join(problem.message for problem in raised.value.problems)
    assert ("ended" in told, "'mv' failed" in told, len(raised.value.problems)) == (True, True, 2)


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_a_good_proxy_reaches_tasks_and_its_contents_nothing_else(
    user: Desk, authority: GridAuthority, backend: str
) -> None:
    proxy = authority.proxy(user.folder / "mine")
    flow(user, "x509")
    run = cenote.load("flow.yaml", backend=backend).run("out")
    seen = run.product("Show")
    content = proxy.read_bytes()
    assert (seen["digest"], seen["mode"]) == (hashlib.sha256(content).hexdigest(), 0o600)
    assert (seen["file"] == str(proxy)) is (backend == "local")
    lines = content.splitlines()
    secret = lines[lines.index(b"-----BEGIN RSA PRIVATE KEY-----") + 1]
    written = [file for file in (user.folder / "out").rglob("*") if file.is_file()]
    assert [file for file in written if secret in file.read_bytes()] == []


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_a_probe_tries_the_proxy_on_the_node_and_leaves_nothing(
    user: Desk, authority: GridAuthority, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = user.folder / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    proxy = authority.proxy(user.folder / "mine")
    flow(user, "x509")
    told = user.cenote("probe", "flow.yaml", "--json", "--backend", backend)
    (pool,) = json.loads(told.stdout)["pools"]
    found = {finding["question"]: finding["verdict"] for finding in pool["findings"]}
    assert (found["credentials"], found["data"]) == ("ok", "ok"), told.stdout
    (seen,) = pool["node"]["credentials"]
    assert (seen["type"], seen["mode"], seen["problem"]) == ("x509", 0o600, "")
    assert pool["node"]["authorities"] == str(authority.directory)
    assert not any(line in told.stdout for line in proxy.read_text().splitlines())
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("fault", ["bakend: local", "credentials: [{type: scitokens, pth: mine}]"])
def test_a_fault_elsewhere_does_not_close_the_data(user: Desk, authority: GridAuthority, fault: str) -> None:
    """Files are read with the credentials that are named; not at all, where these cannot be known."""
    token = TokenIssuer("https://127.0.0.1:1").token()
    write_token(user.folder / "mine", token)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.host().write(user.folder, "host"))
    named = "" if "credentials" in fault else "credentials: [{type: scitokens, path: mine}], "
    server = FileServer(user.folder, accepts=lambda shown: shown == f"Bearer {token}")
    with server.serving(context) as serving:
        files = f"data: {{datasets: [{{name: d, files: ['{serving.url}/a.root']}}]}}\n"
        user.write("flow.yaml", f"{files}analysis: {{stages: []}}\nexecution: {{{named}{fault}}}\n")
        problems = cenote.load(user.folder / "flow.yaml").check().problems
    assert [problem.kind.name for problem in problems] == ["unknown-key"]
