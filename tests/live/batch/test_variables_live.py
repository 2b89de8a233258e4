"""What workers of real batch systems have of the shell that asked for them, and of the driver's own credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote
from builders.credentials import GridAuthority
from cenote.testing.muons import write_muons

from .conftest import BatchSystem

OPS = """
import os, pathlib
from cenote import operation

@operation("custom.show", scope="run", reads=["MET_pt"], product="object")
def show(events):
    proxy = os.environ.get("X509_USER_PROXY")
    return {**os.environ, "read": pathlib.Path(proxy).read_text() if proxy else ""}
"""
FLOW = """
plugins: [ops.py]
data: {{datasets: [{{name: d, files: [a.root]}}]}}
analysis:
  stages:
    - {{id: Open, op: custom.show, execution: {{require: open}}}}
    - {{id: Granted, op: custom.show, execution: {{require: granted}}}}
execution:
  backend: dask
  strategy: {strategy}
  config: {{host: 127.0.0.1, poll_every: 2s, walltime: 01:00:00}}
  credentials: [{{type: x509, path: "{proxy}", certificates: "{authorities}"}}]
  pass_variables: ANALYSIS_*
  pools:
    open: {{workers: 1, resources: {{cpus: 1, memory: 2GB}}, credentials: none}}
    granted: {{workers: 1, resources: {{cpus: 1, memory: 2GB}}}}
"""


def test_a_pool_without_credentials_finds_none_and_workers_have_no_secret_of_the_shell(
    system: BatchSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = GridAuthority(tmp_path / "authority")
    proxy = authority.proxy(tmp_path / "mine")
    write_muons(tmp_path / "a.root", events=10)
    (tmp_path / "ops.py").write_text(OPS)
    flow = tmp_path / "flow.yaml"
    flow.write_text(FLOW.format(strategy=system.strategy, proxy=proxy, authorities=authority.directory))
    for name in ("OWNER_SECRET", "BEARER_TOKEN_FILE", "KRB5CCNAME", "ANALYSIS_TAG", "LC_TIME"):
        monkeypatch.setenv(name, f"the {name}")
    run = cenote.load(flow).run(tmp_path / "out")
    assert run.status == "succeeded", str(run.failures)
    without, granted = run.product("Open"), run.product("Granted")
    for seen in (without, granted):
        assert not {"OWNER_SECRET", "BEARER_TOKEN_FILE", "KRB5CCNAME"} & seen.keys()
        assert (seen["ANALYSIS_TAG"], seen["LC_TIME"]) == ("the ANALYSIS_TAG", "the LC_TIME")
        assert {"HOME", "PATH"} <= seen.keys()
    assert "X509_USER_PROXY" not in without
    assert granted["X509_USER_PROXY"] != str(proxy)
    assert granted["read"] == proxy.read_text()
