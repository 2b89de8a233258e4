"""Archives: the same content gives the same bytes, and comes out as it went in."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from builders.unpacked import unpack
from cenote.common.errors import CenoteError
from cenote.common.machine import Machine
from cenote.execution.packing.archive import Compression, PackingStep, unheard
from cenote.execution.packing.write import Member, write_archive

MEMBERS = [
    Member("bin"),
    Member("bin/run", b"#!/bin/sh\n", executable=True),
    Member("bin/same", same_as="bin/run"),
    Member("lib"),
    Member("lib/" + "deep/" * 30 + "name", b"a long name"),
    Member("lib/über", b"x"),
    Member("lib64", link="lib"),
]


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_the_same_members_are_the_same_bytes(tmp_path: Path, compression: Compression) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    one = write_archive(first, MEMBERS, compression, unheard, total=0)
    other = write_archive(second, MEMBERS, compression, unheard, total=0)
    assert first.read_bytes() == second.read_bytes()
    assert (one, one.size) == (other, first.stat().st_size)


def test_on_how_many_cores_it_was_compressed_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = [Member("file", b"".join(f"line {number}\n".encode() for number in range(300_000)))]
    found = set()
    for cpus in (1, 3):
        monkeypatch.setattr("cenote.execution.packing.write.this_machine", lambda cpus=cpus: Machine(cpus, 0))
        found.add(write_archive(tmp_path / f"{cpus}", content, "zstd", unheard, total=0))
    assert len(found) == 1


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_what_was_packed_comes_out_again(tmp_path: Path, compression: Compression) -> None:
    file = tmp_path / "archive"
    write_archive(file, MEMBERS, compression, unheard, total=0)
    tree = unpack(file, tmp_path / "tree", compression)
    assert (tree / "bin" / "run").read_text() == "#!/bin/sh\n"
    assert os.access(tree / "bin" / "run", os.X_OK)
    assert not os.access(tree / "lib" / "über", os.X_OK)
    assert (tree / "bin" / "run").samefile(tree / "bin" / "same")
    assert (tree / "lib64").readlink() == Path("lib")
    assert (tree / "lib" / Path(*["deep"] * 30) / "name").read_text() == "a long name"


def test_nothing_tells_who_packed_it_or_when(tmp_path: Path) -> None:
    source, file = tmp_path / "source", tmp_path / "archive"
    source.write_text("text")
    write_archive(file, [Member("file", source)], "gzip", unheard, total=4)
    with tarfile.open(file) as archive:
        (member,) = archive.getmembers()
    assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
    assert member.mtime < source.stat().st_mtime
    assert file.read_bytes()[4:8] == bytes(4)  # the time in gzip's header


def test_it_tells_how_far_it_is_in_bytes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(5_000_000))
    steps: list[PackingStep] = []
    write_archive(tmp_path / "archive", [Member("file", source)], "zstd", steps.append, total=5_000_000)
    done = [step.done for step in steps]
    assert (done[0], done) == (0, sorted(done))
    assert 4_000_000 < done[-1] <= 5_000_000
    assert {step.total for step in steps} == {5_000_000}


def test_a_file_that_shrinks_meanwhile_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(10))

    class Shrinking(Member):
        @property
        def size(self) -> int:
            return 20

    with pytest.raises(CenoteError, match="file changed while it was packed"):
        write_archive(tmp_path / "archive", [Shrinking("file", source)], "gzip", unheard, total=20)
