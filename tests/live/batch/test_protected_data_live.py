"""Z → μμ from storage that asks for proxies or tokens, through real batch systems: the driver brings workers theirs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import cenote
from builders.credentials import HOUR, write_token
from cenote.cli.templates.zmumu import make_data
from cenote.common.credential_files.proxy import read_proxy
from cenote.engine.messages import CredentialRenewed
from cenote.execution.runs.journal import read_events

from ..storage_servers import ProtectedStorage, protected_storage
from .conftest import BatchSystem
from .processes import until
from .slurm_cluster import SlurmCluster

TEMPLATE = Path(make_data.__file__).parent
FILES = {"data": 2, "dy": 2, "ttbar": 1}
EXECUTION = """
execution:
  backend: dask
  strategy: {strategy}
  config: {{host: 127.0.0.1, poll_every: 2s}}
  credentials: [{{type: {kind}, path: "{path}", certificates: "{authorities}"}}]
  pools:
    default: {{workers: {workers}, resources: {{cpus: 1, memory: 2GB}}, config: {{walltime: 01:00:00}}}}
"""
LOOK = """
    for name in ("X509_USER_PROXY", "BEARER_TOKEN_FILE"):
        if name in os.environ:
            print("has", os.environ[name], oct(os.stat(os.environ[name]).st_mode), flush=True)
            pathlib.Path({inside!r}, str(os.getpid())).write_text(os.environ[name])
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.1)
"""
"""Goes into the operation of the example: says what the worker has, and waits for the test's sign."""


@pytest.fixture(scope="module")
def storage() -> Iterator[ProtectedStorage]:
    """Files of the example, a twentieth of their size."""
    with protected_storage() as found, pytest.MonkeyPatch.context() as smaller:
        smaller.setattr(make_data, "DY_EVENTS", 2000)
        smaller.setattr(make_data, "TOP_EVENTS", 400)
        make_data.write(found.data)
        yield found


@dataclass(frozen=True)
class Analysis:
    """The example in a folder of its own, and its runs."""

    folder: Path
    storage: ProtectedStorage

    def write(self, address: str, execution: str = "", *, look: bool = False, on_disk: str = "") -> None:
        """The workflow with files under this address, except for one dataset."""
        text = (TEMPLATE / "zmumu.yaml").read_text()
        for dataset, count in FILES.items():
            names = [f"{dataset}_{number}" for number in range(count)]
            where = f"{self.storage.data}/" if dataset == on_disk else address
            urls = [f"{where.replace('NAME', name)}{name}.root" for name in names]
            text = text.replace(f"data/{dataset}_*.root", json.dumps(urls))
        (self.folder / "zmumu.yaml").write_text(text + execution)
        operation = (TEMPLATE / "ops.py").read_text()
        if look:
            (self.folder / "inside").mkdir()
            first = '    """Mass, transverse momentum'
            signs = LOOK.format(go=str(self.folder / "go"), inside=str(self.folder / "inside"))
            operation = operation.replace(first, signs + first).replace(
                "import awkward", "import os, pathlib, time\nimport awkward"
            )
        (self.folder / "ops.py").write_text(operation)

    def execution(self, system: BatchSystem, kind: str, path: Path, *, workers: int) -> str:
        """The part of the workflow about its workers, who have this credential."""
        authorities = self.storage.authority.directory
        return EXECUTION.format(
            strategy=system.strategy, kind=kind, path=path, authorities=authorities, workers=workers
        )

    def wait_for_tasks(self, count: int, driver: subprocess.Popen[bytes]) -> None:
        """Until so many workers are in the operation and wait there."""
        inside = self.folder / "inside"
        until(lambda: len(list(inside.iterdir())) == count or driver.poll() is not None, f"{count} tasks", seconds=120)
        assert driver.poll() is None, self.printed("far")

    def start(self, out: str) -> subprocess.Popen[bytes]:
        """`cenote run`, by a user who has credentials in none of the usual places."""
        command = [sys.executable, "-m", "cenote", "run", "zmumu.yaml", "--out", out]
        surroundings = self.storage.surroundings(CENOTE_CACHE=self.folder / "cache", X509_CERT_DIR="")
        with (self.folder / f"{out}.txt").open("wb") as printed:
            return subprocess.Popen(command, cwd=self.folder, env=surroundings, stdout=printed, stderr=printed)

    def printed(self, out: str) -> str:
        """What the driver said."""
        return (self.folder / f"{out}.txt").read_text()


def numbers(out: Path) -> bytes:
    """The result, bit for bit."""
    run = cenote.open_run(out)
    assert run.status == "succeeded", str(run.failures)
    found: bytes = run.product("DimuonMass").view(flow=True).tobytes()
    return found


@pytest.fixture(scope="module")
def expected(storage: ProtectedStorage, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What every run must find: from the files themselves."""
    near = Analysis(tmp_path_factory.mktemp("near"), storage)
    near.write(f"{storage.data}/")
    assert near.start("out").wait(timeout=120) == 0, near.printed("out")
    return numbers(near.folder / "out")


@pytest.fixture
def analysis(tmp_path: Path, storage: ProtectedStorage) -> Analysis:
    return Analysis(tmp_path, storage)


def credential_in(storage: ProtectedStorage, folder: Path, kind: str) -> tuple[Path, str, list[bytes]]:
    """A file of this kind, the address of the server that wants it, and the bytes that must be seen nowhere."""
    if kind == "x509":
        path = storage.authority.proxy(folder / "mine")
        secret = path.read_text().partition("RSA PRIVATE KEY-----\n")[2].partition("\n-----")[0]
        return path, storage.by_proxy.root, [line.encode() for line in secret.splitlines() if len(line) > 40]
    token = storage.issuer.token()
    return write_token(folder / "mine", token), storage.by_token.root, [token.rpartition(".")[2].encode()]


@pytest.mark.parametrize("kind", ["x509", "scitokens"])
def test_zmumu_reads_protected_files_and_the_secret_is_seen_nowhere(
    analysis: Analysis, system: BatchSystem, kind: str, expected: bytes
) -> None:
    private = analysis.folder / "private"
    private.mkdir()
    path, address, secrets = credential_in(analysis.storage, private, kind)
    analysis.write(address, analysis.execution(system, kind, path, workers=2), look=True)
    shown: set[str] = set()
    with analysis.start("far") as driver:
        analysis.wait_for_tasks(2, driver)
        assert f"{driver.pid}/environ" in seen_of_processes([bytes(analysis.folder)]), "what is there is found"
        (analysis.folder / "go").touch()
        while driver.poll() is None:
            shown |= seen_of_processes(secrets)
            time.sleep(0.5)
    assert driver.returncode == 0, analysis.printed("far")
    assert numbers(analysis.folder / "far") == expected
    assert shown == set()
    assert files_with(secrets, analysis.folder) == [path]
    assert files_with(secrets, system.root) == []
    theirs = {
        tuple(line.split()[1:])
        for said in (analysis.folder / "far" / "debug" / "distributed" / "out").iterdir()
        for line in said.read_text().splitlines()
        if line.startswith("has ")
    }
    assert len(theirs) == 2, "a file for each worker"
    for file, mode in theirs:
        assert mode == "0o100600"
        assert file != str(path)
        assert not Path(file).parent.exists(), "nothing is left"


def test_a_proxy_that_ends_in_the_middle_of_a_run_is_replaced_and_the_run_continues(
    analysis: Analysis, slurm: SlurmCluster, expected: bytes
) -> None:
    """The first task reads from disk and waits, since XRootD's client remembers a proxy for as long as that lasts.

    Protected files have a session each, because of the user's name in their addresses.
    """
    storage, out = analysis.storage, analysis.folder / "far"
    path, address, _ = credential_in(storage, analysis.folder, "x509")
    execution = analysis.execution(slurm, "x509", path, workers=1)
    analysis.write(address.replace("localhost", "NAME@localhost"), execution, look=True, on_disk="data")
    with analysis.start("far") as driver:
        analysis.wait_for_tasks(1, driver)
        (marker,) = (analysis.folder / "inside").iterdir()
        delivered = Path(marker.read_text())
        short = 0
        for lifetime in (10, 20, 40):  # on a busy machine one may have ended before it is on the worker
            short += 1
            storage.authority.proxy(path, lifetime=lifetime)
            until(lambda: delivered.read_bytes() == path.read_bytes() or read_proxy(path).ends < time.time(), "either")
            if delivered.read_bytes() == path.read_bytes():
                break
        until(lambda: read_proxy(delivered).ends < time.time(), "the end of a short proxy on the worker")
        storage.authority.proxy(path, of=storage.authority.user("Bea Muon"), lifetime=HOUR)
        until(lambda: delivered.read_bytes() == path.read_bytes(), "a new proxy on the worker")
        (analysis.folder / "go").touch()
        driver.wait(timeout=120)
    assert driver.returncode == 0, analysis.printed("far")
    assert numbers(out) == expected
    logins = storage.by_proxy.log.read_text().count("login as /O=Cenote Test/CN=Bea Muon")
    assert logins == FILES["dy"] + FILES["ttbar"]
    renewed = [event.credential for event in read_events(out) if isinstance(event, CredentialRenewed)]
    assert set(renewed) == {"x509"}
    assert 2 <= len(renewed) <= short + 1  # the new one, and a short one at least; none twice


def seen_of_processes(secrets: list[bytes]) -> set[str]:
    """What command lines and environments of this machine's processes hold of these."""
    found = set()
    for process in Path("/proc").iterdir():
        for part in ("cmdline", "environ") if process.name.isdigit() else ():
            try:
                content = (process / part).read_bytes()
            except OSError:  # it is gone, or another user's
                continue
            if any(secret in content for secret in secrets):
                found.add(f"{process.name}/{part}")
    return found


def files_with(secrets: list[bytes], folder: Path) -> list[Path]:
    """The files below that hold one of these."""
    found = []
    for path in folder.rglob("*"):
        try:
            content = path.read_bytes() if path.is_file() else b""
        except OSError:  # of a service, and gone by now
            continue
        if any(secret in content for secret in secrets):
            found.append(path)
    return found
