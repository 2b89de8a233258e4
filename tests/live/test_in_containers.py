"""Workers in a real apptainer: an image without Python, and an environment as a squashfs over it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import cenote
from builders.conda_prefix import worker_prefix
from builders.machine_cache import made_once
from cenote.execution.environments.support.packed import USE
from cenote.testing.muons import write_muons

from .conftest import ROOT, cannot_run
from .debian_packages import unpacked
from .foreign_node import OWN_ROOT, PACKAGES, ForeignNode, finish, node_root

pytestmark = pytest.mark.live

SUITE = "sid"
"""The first release of Debian with apptainer; this machine's may be older, and then it runs in a root of its own."""
START = """#!/bin/sh
mkdir -p /var/lib/apptainer/mnt/session
exec /usr/bin/apptainer "$@"
"""
OPERATIONS = """
import os, platform, sys
from pathlib import Path
import cenote

@cenote.operation("custom.where", scope="run", reads=["MET_pt"], product="object")
def where(events):
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    return {"release": release, "prefix": sys.prefix, "activated": os.environ["ACTIVATED"], "of": len(events["MET_pt"])}
"""
FLOW = """
plugins: [ops.py]
data: {datasets: [{name: d, files: [a.root]}]}
analysis:
  stages:
    - {id: Where, op: custom.where}
    - id: MET
      op: hep.hist
      render: []
      params: {axes: [{name: x, source: MET_pt, bins: {nbins: 20, low: 0, high: 100}}]}
execution: {pools: {default: {workers: 1}}}
"""


def finish_node(folder: Path) -> None:
    finish(folder)
    (folder / "etc/resolv.conf").touch()
    (folder / "etc/localtime").touch()
    (folder / "usr/lib/var/lib/apptainer/mnt/session").mkdir(parents=True)  # which it believes to be its place at times
    start = folder / "usr/local/bin/start-apptainer"
    start.parent.mkdir(parents=True, exist_ok=True)
    start.write_text(START)
    start.chmod(0o755)
    config = folder / "etc/apptainer/apptainer.conf"  # the tests' root may lack capabilities that it would hand on
    config.write_text(config.read_text().replace("root default capabilities = full", "root default capabilities = no"))


def squashed(prefix: Path) -> Path:
    """A prefix as a squashfs, made once."""
    tools = unpacked("squashfs-tools", ["squashfs-tools", "liblzo2-2", "liblz4-1", "libzstd1", "liblzma5", "zlib1g"])

    def make(folder: Path) -> None:
        command = [str(tools / "usr/bin/mksquashfs"), str(prefix), str(folder / "env.sqfs"), "-quiet", "-no-progress"]
        libraries = ":".join(str(found) for found in tools.glob("**/x86_64-linux-gnu"))
        plain = ["-noI", "-noD", "-noF", "-noX"]  # to compress it takes longer than the test
        subprocess.run([*command, *plain], check=True, env={"LD_LIBRARY_PATH": libraries}, timeout=300)

    return made_once("worker-squashfs", str(prefix), make) / "env.sqfs"


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """Apptainer, as a node has it that sees the folder of the test."""
    if not ROOT:
        cannot_run("apptainer comes in a root of its own, where it needs root to mount a squashfs")
    packages = [*PACKAGES.split(), "apptainer", "squashfuse", "mount"]
    root = unpacked("node-with-apptainer", packages, with_needed=["lib"], suite=SUITE, then=finish_node)
    kept, data = tmp_path / "var-tmp", tmp_path / "data"
    kept.mkdir()
    data.mkdir()
    shown = [tmp_path, USE.parent, node_root(), squashed(worker_prefix()).parent]
    node = ForeignNode(root, kept, data)
    script = node.script(tmp_path / "apptainer", shown, starts="/usr/local/bin/start-apptainer", enter=OWN_ROOT)
    said = subprocess.run([script, "exec", node_root(), "true"], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        cannot_run(f"no container starts on this machine: {said.stderr}")
    return script


@pytest.mark.parametrize("backend", ["dask", "local"])
def test_a_workflow_runs_in_an_environment_over_an_image(
    backend: str, runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    write_muons(tmp_path / "a.root", events=500)
    (tmp_path / "ops.py").write_text(OPERATIONS)
    prefix = worker_prefix()
    environment = {"type": "container", "image": str(node_root()), "squashfs": str(squashed(prefix))}
    environment |= {"prefix": str(prefix), "runtime": str(runtime), "scratch": str(tmp_path / "node")}
    flow = tmp_path / "flow.yaml"
    flow.write_text(FLOW)
    sets = [f"execution.environment={json.dumps(environment)}"]

    run = cenote.load(flow, backend=backend, sets=sets).run(tmp_path / "out")

    assert run.status == "succeeded", run.failures
    where = run.product("Where")
    assert where == {"release": "trixie", "prefix": str(prefix), "activated": f"{prefix}/share", "of": 500}
    recorded = json.loads((tmp_path / "out" / "provenance.json").read_text())["environments"]["default"]
    assert (recorded["type"], len(recorded["squashfs_digest"])) == ("container", 64)
    shutil.rmtree(tmp_path / "node")
