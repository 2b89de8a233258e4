"""What a node does with packed environments: unpacks each once, starts workers from it, and says what is wrong."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from builders.nodes import Node
from builders.small_archives import small_archive
from cenote.execution.environments.support.packed import UNPACK, unpacked_on_node
from cenote.execution.packing.archive import Archive, Compression
from cenote.execution.start_failures import StartFailure
from cenote.testing.launches import a_launch

SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}


@pytest.fixture(params=SHELLS)
def any_node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    """With each shell; busybox brings programs of its own, and there is hardly another."""
    words = SHELLS[request.param]
    program = shutil.which(words[0])
    if program is None:
        pytest.skip(f"there is no {words[0]} here")
    node = Node(tmp_path, (program, *words[1:]))
    if request.param == "busybox":
        tools = tmp_path / "tools"
        tools.mkdir()
        subprocess.run([program, "--install", "-s", tools], check=True)
        if not (tools / "flock").exists():  # Debian's has none
            (tools / "flock").symlink_to(shutil.which("flock") or "/nowhere")
        node.asked = {"PATH": str(tools)}
    return node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return small_archive(tmp_path)


def names(folder: Path) -> set[str]:
    """Of what is there of archives."""
    return {one.name for one in folder.iterdir() if not one.name.startswith(".")}


def test_the_exit_codes_are_those_that_are_explained() -> None:
    lines = [line.removeprefix("cenote_") for line in UNPACK.read_text().splitlines() if "=" in line[:28]]
    written = {name: int(code) for name, _, code in (line.partition("=") for line in lines) if code.isdecimal()}
    explained = {failure.name: failure.value.code for failure in StartFailure}
    assert written.items() <= explained.items()


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_an_archive_is_unpacked_and_its_python_starts(any_node: Node, compression: Compression) -> None:
    if shutil.which(compression, path=any_node.asked.get("PATH")) is None:
        pytest.skip(f"there is no {compression} here")
    archive = small_archive(any_node.folder, compression=compression)
    for _ in range(2):
        assert any_node.run(archive) == (0, f"python in {any_node.place(archive)}", "")
    assert names(any_node.environments) == {archive.digest[:16], f"{archive.digest[:16]}.lock"}
    assert any_node.environments.stat().st_mode & 0o777 == 0o700


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


def test_four_workers_at_once_fetch_and_unpack_once(any_node: Node, archive: Archive) -> None:
    node = any_node
    away = archive.file.rename(node.folder / "away")
    log = node.folder / "log"
    node.variables = {"CENOTE_FETCH": f"sh -c 'echo $1 >> {log}; sleep 0.3; cp {away} $2' fetch"}
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
    half = node.environments / f"{place.name}.new" / "half"
    node.variables = {"CENOTE_FETCH": f"mkdir {half.parent}; touch {half}; sleep 60; :"}
    with node.start(archive) as process:
        while not half.exists():
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    assert not place.exists()
    node.variables = {"CENOTE_FETCH": f"sh -c 'cp {away} $2' fetch"}
    assert node.run(archive) == (0, f"python in {place}", "")
    assert names(node.environments) == {place.name, f"{place.name}.lock"}
    assert not (place / "half").exists()


def test_one_that_is_told_to_end_while_it_unpacks_cleans_up(node: Node, archive: Archive) -> None:
    archive.file.unlink()
    half = node.environments / f"{archive.digest[:16]}.archive"
    node.variables = {"CENOTE_FETCH": f"touch {half}; sleep 60; :"}
    with node.start(archive) as process:
        while not half.exists():
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)  # until nobody writes any more
    assert names(node.environments) == {f"{archive.digest[:16]}.lock"}


def test_a_tree_of_which_the_node_removed_parts_is_unpacked_again(node: Node, archive: Archive) -> None:
    node.run(archive)
    (node.place(archive) / ".cenote" / "ready").unlink()
    (node.place(archive) / "bin" / "python").unlink()
    assert node.run(archive) == (0, f"python in {node.place(archive)}", "")


def test_files_that_the_node_removed_or_cut_off_are_put_back_though_others_use_the_tree(any_node: Node) -> None:
    module = "lib/a module.py"
    archive = small_archive(any_node.folder, {module: "a = 1\n", "lib/whole.py": "b = 2\n", "bin/tool": "tool\n"})
    place = any_node.place(archive)
    with any_node.start(archive, then="echo started; read line; cat $CENOTE_PREFIX/lib/whole.py") as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "started\n"
        kept = (place / "lib" / "whole.py").stat().st_ino
        (place / "lib" / "written at use.txt").write_text("it may stay")
        shutil.rmtree(place / "bin")
        (place / module).write_text("")
        code, out, err = any_node.run(archive)
        assert (code, out) == (0, f"python in {place}")
        assert "removed or damaged 3 files" in err
        assert (place / module).read_text() == "a = 1\n"
        assert (place / "bin" / "tool").read_text() == "tool\n"
        assert (place / "lib" / "whole.py").stat().st_ino == kept, "what others use stays as it is"
        os.killpg(other.pid, signal.SIGKILL)
    assert any_node.run(archive) == (0, f"python in {place}", ""), "it is whole"
    assert names(any_node.environments) == {place.name, f"{place.name}.lock"}


@pytest.mark.parametrize(
    "variables", [{"TIME_STYLE": "long-iso"}, {"QUOTING_STYLE": "shell-always"}, {"BLOCK_SIZE": "1K"}], ids=str
)
def test_how_a_node_lists_files_damages_nothing(node: Node, archive: Archive, variables: dict[str, str]) -> None:
    node.run(archive)
    node.variables = variables
    assert node.run(archive) == (0, f"python in {node.place(archive)}", "")


@pytest.mark.parametrize("damage", ["a folder for a file", "a file for a folder", "half a list", "an empty list"])
def test_a_tree_that_cannot_be_mended_is_unpacked_again_when_nobody_uses_it(any_node: Node, damage: str) -> None:
    archive = small_archive(any_node.folder, {"lib/deep/a.py": "a = 1\n", "lib/b.py": "b = 2\n"})
    any_node.run(archive)
    place = any_node.place(archive)
    deep, listed = place / "lib" / "deep", place / ".cenote" / "files"
    shutil.rmtree(deep)
    match damage:
        case "a folder for a file":
            (place / "lib" / "b.py").unlink()
            (place / "lib" / "b.py").mkdir()
        case "a file for a folder":
            deep.write_text("")
        case "half a list":
            listed.write_text(listed.read_text()[: len(listed.read_text()) // 2])
        case "an empty list":
            listed.write_text("")
    code, out, _ = any_node.run(archive)
    assert (code, out) == (0, f"python in {place}")
    assert (deep / "a.py").read_text() == "a = 1\n"
    assert (place / "lib" / "b.py").read_text() == "b = 2\n"
    assert any_node.run(archive) == (0, f"python in {place}", ""), "it is whole"


def test_a_damaged_tree_whose_archive_is_gone_is_named(node: Node, archive: Archive) -> None:
    node.run(archive)
    (node.place(archive) / "bin" / "python").unlink()
    archive.file.unlink()
    code, _, err = node.run(archive)
    assert StartFailure.of(code) is StartFailure.NO_ARCHIVE
    assert str(node.place(archive)) in err


def test_a_tree_is_unpacked_again_if_the_node_went_down_before_it_was_on_the_disk(node: Node, archive: Archive) -> None:
    node.run(archive)
    tree = node.place(archive)
    (tree / ".cenote" / "ready").write_text("another start of the node\n")
    while not (tree / ".cenote" / "on-disk").exists():  # written behind the worker's back
        time.sleep(0.02)
    python = tree / "bin" / "python"
    python.write_text("#!/bin/sh\necho the same".ljust(python.stat().st_size))
    assert node.run(archive) == (0, "the same", "")
    (tree / ".cenote" / "on-disk").unlink()
    assert node.run(archive) == (0, f"python in {tree}", "")


def test_all_of_a_tree_in_use_looks_used(node: Node, archive: Archive) -> None:
    node.run(archive)
    place = node.place(archive)
    for file in (place / ".cenote" / "ready", place / "bin" / "python"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    node.run(archive)
    used = (place / "bin" / "python").stat()
    assert used.st_atime > 1_700_000_000
    assert used.st_mtime == 1_000_000_000


def test_old_trees_go_when_another_is_unpacked_and_those_in_use_never(any_node: Node) -> None:
    node = any_node
    old, in_use, young, new, killed = (small_archive(node.folder, {"name": name}) for name in "ouynk")
    for archive in (old, young):
        node.run(archive)
    with node.start(in_use, then="echo up; sleep 60") as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "up\n"
        (node.environments / f"{killed.digest[:16]}.lock").touch()
        (node.environments / f"{killed.digest[:16]}.new").mkdir()
        (node.environments / f"{killed.digest[:16]}.archive").touch()
        long_ago = time.time() - 20 * 86400
        for archive in (old, in_use):
            os.utime(node.environments / f"{archive.digest[:16]}.lock", (long_ago, long_ago))
        assert node.run(new)[0] == 0
        os.killpg(worker.pid, signal.SIGKILL)
    kept = {name for name in names(node.environments) if not name.endswith(".lock")}
    assert kept == {archive.digest[:16] for archive in (in_use, young, new)}


def test_nothing_of_the_software_of_this_machine_comes_along(node: Node, archive: Archive) -> None:
    node.variables = {
        **dict.fromkeys(("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"), "/of/mine"),
        "CONDA_PROMPT_MODIFIER": "(base)\nCONDA",
        "PATH": f"/of/mine:{os.environ['PATH']}",
        "PYTHON_CPU_COUNT": "1",
    }
    node.asked = {"CONDA_OVERRIDE_CUDA": "12"}
    code, out, _ = node.run(archive, then="env")
    found = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    assert code == 0
    assert not {name for name in found if name.startswith("CONDA_")} - {"CONDA_OVERRIDE_CUDA"}
    assert not {"PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV"} & found.keys()
    assert "/of/mine" not in out
    assert found["PATH"].startswith(f"{node.place(archive)}/bin:/usr/local/sbin:")
    assert (found["PYTHON_CPU_COUNT"], found["PYTHONNOUSERSITE"]) == ("1", "1")
