"""Each thing that goes wrong on a node has its exit code and its line, and leaves nothing half done."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from builders.nodes import Node
from builders.small_archives import small_archive
from cenote.execution.packing.archive import Archive
from cenote.execution.start_failures import StartFailure

NEEDED = "ls id mkdir uname sed date flock touch tar gzip sha256sum wc df find rm mv chmod sleep sh cat env printf"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return small_archive(tmp_path)


def is_clean(node: Node) -> bool:
    """Whether only locks are in its folder."""
    return all(one.name.endswith(".lock") or one.name == ".runs" for one in node.environments.iterdir())


def tools(node: Node, *without: str) -> Path:
    """A folder with the programs that a node needs, but for some."""
    folder = node.folder / "tools"
    folder.mkdir()
    for name in NEEDED.split():
        found = shutil.which(name)
        assert found is not None
        if name not in without:
            (folder / name).symlink_to(found)
    node.asked = {"PATH": str(folder)}
    return folder


def mounted(node: Node, options: str, folder: Path | None = None) -> None:
    """Have another file system where its environments go, or elsewhere, which only the node's shell sees."""
    if folder is None:
        folder = node.scratch
        folder.mkdir()
    mount = f'mount -t tmpfs -o {options} none {folder} && exec sh "$@"'
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "node"]
    if subprocess.run([*words, "-c", ":"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody mount file systems of one's own")
    node.shell = tuple(words)


@pytest.mark.parametrize("tool", ["tar", "gzip", "flock"])
def test_a_program_that_the_node_lacks_is_named(node: Node, archive: Archive, tool: str) -> None:
    tools(node, tool)
    assert f"there is no program '{tool}'" in node.fails(StartFailure.MISSING_TOOL, archive)


def test_a_node_without_zstd_says_so(node: Node, archive: Archive) -> None:
    tools(node)
    archive = replace(archive, compression="zstd")
    assert "there is no program 'zstd'" in node.fails(StartFailure.MISSING_TOOL, archive)
    assert is_clean(node)


def test_an_archive_that_is_nowhere(node: Node, archive: Archive) -> None:
    archive.file.unlink()
    assert f"cannot get the archive {archive.file}: it is not there" in node.fails(StartFailure.NO_ARCHIVE, archive)
    node.variables = {"CENOTE_FETCH": "sh -c 'echo no such thing >&2; exit 3' fetch"}
    assert "it could not be fetched: no such thing" in node.fails(StartFailure.NO_ARCHIVE, archive)
    assert is_clean(node)


def test_an_archive_that_was_damaged_where_it_lies(node: Node, archive: Archive) -> None:
    data = bytearray(archive.file.read_bytes())
    data[50] ^= 1
    archive.file.write_bytes(data)
    line = node.fails(StartFailure.CORRUPT_ARCHIVE, archive)
    assert f"the archive {archive.file} is damaged: its SHA-256 is " in line
    assert f" instead of {archive.digest}" in line
    archive.file.write_bytes(data[:-3])
    line = node.fails(StartFailure.CORRUPT_ARCHIVE, archive)
    assert f"it has {archive.size - 3} bytes instead of {archive.size}" in line
    assert is_clean(node)


def test_an_archive_that_was_damaged_on_its_way_is_fetched_once_more(node: Node, archive: Archive) -> None:
    away = archive.file.rename(node.folder / "away")
    first = node.folder / "first"
    damaged = f"if mkdir {first} 2>/dev/null; then echo damaged > $2; else cp {away} $2; fi"
    node.variables = {"CENOTE_FETCH": f"sh -c '{damaged}' fetch"}
    assert node.run(archive) == (0, f"python in {node.place(archive)}", "")


def test_an_archive_that_is_damaged_each_time_it_is_fetched(node: Node, archive: Archive) -> None:
    archive.file.unlink()
    node.variables = {"CENOTE_FETCH": f"sh -c 'echo damaged > $2; echo >> {node.folder}/log' fetch"}
    assert "it has 8 bytes instead of " in node.fails(StartFailure.CORRUPT_ARCHIVE, archive)
    assert (node.folder / "log").read_text() == "\n\n"
    assert is_clean(node)


def test_too_little_space_is_told_with_figures_after_others_were_removed(node: Node, archive: Archive) -> None:
    unused = small_archive(node.folder, {"another": "one"})
    node.run(unused)
    yesterday = os.path.getmtime(archive.file) - 2 * 86400  # noqa: PTH204  # a number is enough
    os.utime(node.environments / f"{unused.digest[:16]}.lock", (yesterday, yesterday))
    df = tools(node, "df") / "df"
    df.write_text("#!/bin/sh\necho Filesystem and so on\necho /dev/sda 1000000 900000 12000 99% /var/my tmp\n")
    df.chmod(0o755)
    line = node.fails(StartFailure.NO_SPACE, replace(archive, unpacked=467_000_000))
    assert f"{node.environments} has 13 MB free, and the environment needs 467 MB" in line
    assert is_clean(node)


def test_a_disk_that_becomes_full(node: Node) -> None:
    mounted(node, "size=200k,mode=755")
    archive = small_archive(node.folder, {"large": os.urandom(1_000_000)})
    line = node.fails(StartFailure.NO_SPACE, archive)
    assert "became full while the environment was unpacked" in line
    line = node.fails(StartFailure.NO_SPACE, replace(archive, unpacked=1_000_000))
    assert "kB free, and the environment needs 1000 kB" in line


def test_a_folder_that_cannot_be_written(node: Node, archive: Archive) -> None:
    mounted(node, "ro")
    assert f"{node.environments} cannot be made: " in node.fails(StartFailure.NO_FOLDER, archive)


def test_a_folder_from_which_nothing_can_be_run(node: Node, archive: Archive) -> None:
    mounted(node, "noexec,mode=755")
    assert f"no programs can be run in {node.environments}: " in node.fails(StartFailure.NO_FOLDER, archive)


def test_a_usual_place_from_which_nothing_can_be_run_is_passed_over(node: Node, archive: Archive) -> None:
    mounted(node, "noexec,mode=1777", Path("/var/tmp"))
    node.scratch.mkdir()
    node.variables = {"TMPDIR": str(node.scratch)}
    assert node.run(archive, scratch="") == (0, f"python in {node.place(archive)}", "")


def test_a_file_where_the_folder_should_be(node: Node, archive: Archive) -> None:
    node.scratch.write_text("")
    assert f"{node.environments} cannot be made: " in node.fails(StartFailure.NO_FOLDER, archive)


def test_a_folder_that_is_no_absolute_path(node: Node, archive: Archive) -> None:
    assert "must be an absolute path" in node.fails(StartFailure.NO_FOLDER, archive, scratch="some/where")


def test_a_folder_that_others_can_write_to(node: Node, archive: Archive) -> None:
    node.environments.mkdir(parents=True)
    node.environments.chmod(0o770)
    line = node.fails(StartFailure.UNSAFE_FOLDER, archive)
    assert f"only user {os.geteuid()} can write to, and is drwxrwx---" in line


def test_a_folder_that_others_can_rename(node: Node, archive: Archive) -> None:
    node.scratch.mkdir()
    node.scratch.chmod(0o777)
    assert "everybody may rename" in node.fails(StartFailure.UNSAFE_FOLDER, archive)
    node.scratch.chmod(0o1777)
    assert node.run(archive)[0] == 0


def test_a_folder_that_is_a_link(node: Node, archive: Archive) -> None:
    node.scratch.mkdir()
    (node.folder / "elsewhere").mkdir(mode=0o700)
    node.environments.symlink_to(node.folder / "elsewhere")
    assert "and is lrwxrwxrwx" in node.fails(StartFailure.UNSAFE_FOLDER, archive)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_folder_of_another_user(node: Node, archive: Archive) -> None:
    node.environments.mkdir(parents=True, mode=0o700)
    os.chown(node.environments, 12345, 12345)
    assert "owner 12345" in node.fails(StartFailure.UNSAFE_FOLDER, archive)


def test_an_archive_that_is_none(node: Node, archive: Archive) -> None:
    archive.file.write_bytes(b"this is no archive")
    digest = subprocess.run(["sha256sum", archive.file], capture_output=True, text=True, check=True).stdout[:64]
    line = node.fails(StartFailure.NOT_UNPACKED, replace(archive, digest=digest, size=18))
    assert "cannot be unpacked" in line
    assert "gzip" in line
    assert is_clean(node)


def test_an_archive_for_another_platform(node: Node, tmp_path: Path) -> None:
    archive = small_archive(tmp_path, platform="osx-arm64")
    assert "the environment is for osx-arm64, and the node is " in node.fails(StartFailure.WRONG_PLATFORM, archive)


def test_a_path_that_does_not_fit_into_the_environments_files(node: Node, tmp_path: Path) -> None:
    archive = small_archive(tmp_path, placeholder="/opt/somewhere")
    line = node.fails(StartFailure.LONG_PATH, archive)
    assert f"has {len(str(node.place(archive)))} characters, and the environment takes paths of at most 14" in line
    assert is_clean(node)


@pytest.mark.parametrize("odd", ["it's", "$(touch run)", 'a"b', "`touch run`", "a\\b"])
def test_a_path_that_would_break_the_files_it_is_written_into(node: Node, tmp_path: Path, odd: str) -> None:
    node.variables = {"ODD": str(tmp_path / odd)}
    moved = small_archive(tmp_path, placeholder="/placeholder" * 20)
    line = node.fails(StartFailure.NO_FOLDER, moved, scratch="$ODD")
    assert f"an environment cannot be in {tmp_path / odd}/" in line
    assert not (tmp_path / "run").exists()


def test_relocation_is_told_the_place_and_its_failure_is_told(node: Node, tmp_path: Path) -> None:
    long = "/placeholder" * 20
    python = '#!/bin/sh\n[ "$4" != .cenote/relocate.py ] || { echo "$@" > moved; pwd >> moved; }\n'
    archive = small_archive(tmp_path, {"bin/python": python}, placeholder=long)
    place = node.place(archive)
    assert node.run(archive)[0] == 0
    assert (place / "moved").read_text() == f"-I -S -B .cenote/relocate.py {place}\n{place}.new\n"
    broken = small_archive(
        tmp_path, {"bin/python": "#!/bin/sh\n[ $4 = -c ] || { echo oh; exit 1; }\n"}, placeholder=long
    )
    line = node.fails(StartFailure.NOT_UNPACKED, broken)
    assert line.startswith(f"cenote: the environment cannot be moved to {node.place(broken)}: oh (on ")
    assert not node.place(broken).exists()


def test_a_python_that_does_not_start(node: Node, tmp_path: Path) -> None:
    python = "#!/bin/sh\necho one line >&2\necho version GLIBC_2.99 not found >&2\nexit 1\n"
    archive = small_archive(tmp_path, {"bin/python": python})
    line = node.fails(StartFailure.BROKEN_PYTHON, archive)
    assert "the environment's Python does not start: version GLIBC_2.99 not found" in line
    assert is_clean(node)


def test_another_worker_that_does_not_finish(node: Node, archive: Archive) -> None:
    node.environments.mkdir(parents=True, mode=0o700)
    node.variables = {"CENOTE_LOCK_SECONDS": "1"}
    with (node.environments / f"{archive.digest[:16]}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert f"another worker holds {lock.name}" in node.fails(StartFailure.LOCKED, archive)
    assert node.run(archive)[0] == 0
