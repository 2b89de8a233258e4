"""What a node does with packed environments: unpacks each once, starts workers from it, and says what is wrong."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from builders.nodes import Node
from builders.small_archives import small_archive
from cenote.environments.support.on_node import UNPACK, unpacked_on_node
from cenote.packing.archive import Archive
from cenote.start_failures import StartFailure
from cenote.testing.launches import a_launch

SHELLS = {
    "dash": ["dash"],
    "bash": ["bash"],
    "busybox": ["busybox", "sh"],
}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    words = SHELLS[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]} here")
    return words


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return small_archive(tmp_path)


def names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def test_the_exit_codes_are_those_that_are_explained() -> None:
    lines = [line.removeprefix("cenote_") for line in UNPACK.read_text().splitlines() if "=" in line[:28]]
    written = {name: int(code) for name, _, code in (line.partition("=") for line in lines) if code.isdecimal()}
    explained = {failure.name: failure.value.code for failure in StartFailure}
    assert written.items() <= explained.items()


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_an_archive_is_unpacked_and_its_python_starts(tmp_path: Path, shell: list[str], compression: str) -> None:
    if shutil.which(compression) is None:
        pytest.skip(f"there is no {compression} here")
    node = Node(tmp_path, tuple(shell))
    archive = small_archive(tmp_path, compression=compression)  # type: ignore[arg-type]  # a parameter
    assert node.run(archive) == (0, f"python in {node.place(archive)}", "")
    assert names(node.environments) == {archive.digest[:16], f"{archive.digest[:16]}.lock"}
    assert node.environments.stat().st_mode & 0o777 == 0o700


def test_what_is_unpacked_needs_no_archive_any_more(node: Node, archive: Archive) -> None:
    node.run(archive)
    archive.file.unlink()
    assert node.run(archive) == (0, f"python in {node.place(archive)}", "")


def test_several_archives_are_active_in_their_order(node: Node, archive: Archive) -> None:
    code = small_archive(
        node.folder, {".cenote/activate.sh": 'export PYTHONPATH="$CENOTE_HERE${PYTHONPATH:+:$PYTHONPATH}"\n'}
    )
    held = "echo $PYTHONPATH; for lock in 9 8; do readlink /proc/self/fd/$lock; done"
    found = node.run(archive, code, then=held)
    assert found == (0, f"{node.place(code)}\n{node.place(archive)}.lock\n{node.place(code)}.lock", "")


def test_a_folder_is_named_by_variables_of_the_node(node: Node, archive: Archive, tmp_path: Path) -> None:
    node.variables = {"PLACE": str(tmp_path / "it's here")}
    code, out, err = node.run(archive, scratch="${PLACE}/b $ c")
    assert (code, err) == (0, "")
    assert out.startswith(f"python in {tmp_path}/it's here/b $ c/cenote-env-")
    assert "$NOWHERE, by which" in node.fails(StartFailure.NO_FOLDER, archive, scratch="$NOWHERE/x")


def test_without_a_folder_the_node_has_one(archive: Archive) -> None:
    ready = unpacked_on_node(a_launch("x"), [archive], scratch=None, variables={})
    assert not [line for line in ready.setup if "CENOTE_SCRATCH" in str(line)]


def test_four_workers_at_once_fetch_and_unpack_once(node: Node, tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    away = archive.file.rename(tmp_path / "away")
    log = tmp_path / "log"
    fetch = tmp_path / "fetch.sh"
    fetch.write_text(f'#!/bin/sh\necho "$1" >> {log}\nsleep 0.3\ncp {away} "$2"\n')
    fetch.chmod(0o755)
    node.variables = {"CENOTE_FETCH": f"{fetch}"}
    started = [node.start(archive) for _ in range(4)]
    for process in started:
        with process:
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out.strip(), err) == (0, f"python in {node.place(archive)}", "")
    assert log.read_text() == f"{archive.file}\n"
    assert names(node.environments) == {archive.digest[:16], f"{archive.digest[:16]}.lock"}


def test_one_that_is_killed_while_it_unpacks_leaves_nothing_that_is_used(node: Node, archive: Archive) -> None:
    away = archive.file.rename(node.folder / "away")
    place = node.place(archive)
    node.variables = {"CENOTE_FETCH": f"mkdir -p {place}.new/bin; touch {place}.new/half; sleep 60; :"}
    with node.start(archive) as process:
        while not (node.environments / f"{place.name}.new" / "half").exists():
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    assert not place.exists()
    node.variables = {"CENOTE_FETCH": f"sh -c 'cp {away} \"$2\"' fetch"}
    assert node.run(archive) == (0, f"python in {place}", "")
    assert names(node.environments) == {place.name, f"{place.name}.lock"}
    assert not (place / "half").exists()
