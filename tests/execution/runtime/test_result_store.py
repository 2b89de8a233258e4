"""The result store keeps results whole or not at all, finds them quickly, and stays below its limit."""

from __future__ import annotations

import ctypes
import hashlib
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cenote.execution.runtime.result_store.folders import ResultFolder
from cenote.execution.runtime.result_store.packs import ROW, Content
from cenote.execution.runtime.result_store.store import ResultStore
from cenote.execution.runtime.result_store.table import Pack, PackTable
from cenote.execution.worker.results import store as run_key
from cenote.execution.worker.results.bundle import pack, unpack
from cenote.execution.worker.results.store import DamagedResultError

MB = 1_000_000


def id_of(name: object) -> bytes:
    return hashlib.blake2b(str(name).encode(), digest_size=16).digest()


def a_store(folder: Path, *, limit: int = 100 * MB, warnings: list[str] | None = None) -> ResultStore:
    def refuse(message: str) -> None:
        pytest.fail(message)

    return ResultStore(ResultFolder(folder), limit=limit, warn=refuse if warnings is None else warnings.append)


def packed(products: dict[str, Any]) -> memoryview:
    return memoryview(b"".join(pack(products)))


def keep(store: ResultStore, seconds: float = 1.0, **products: Any) -> None:
    store.add(packed(products), {name: id_of(name) for name in products}, seconds=seconds)


def read(store: ResultStore, *names: str) -> dict[str, Any]:
    return {**unpack(b"".join(store.packed({name: id_of(name) for name in names})))}


def found(store: ResultStore, *names: str) -> set[str]:
    there = store.find(map(id_of, names))
    return {name for name in names if id_of(name) in there}


def there(folder: Path, *names: str) -> set[str]:
    """What a later process finds."""
    store = a_store(folder)
    try:
        return found(store, *names)
    finally:
        store.close()


def test_what_was_added_is_found_by_this_process_and_by_later_ones(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    assert found(store, "a", "b") == set()
    keep(store, a=np.arange(10_000.0), b={"n": 3})
    assert found(store, "a", "b", "c") == {"a", "b"}
    assert read(store, "b") == {"b": {"n": 3}}
    store.close()
    later = a_store(tmp_path)
    assert found(later, "a", "b", "c") == {"a", "b"}
    assert np.array_equal(read(later, "b", "a")["a"], np.arange(10_000.0))
    later.close()


def test_a_product_may_be_called_otherwise_when_it_is_read(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    keep(store, a=1, b=2)
    assert {**unpack(b"".join(store.packed({"x": id_of("a"), "y": id_of("b")})))} == {"x": 1, "y": 2}


def test_products_without_an_id_are_not_kept(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.add(packed({"a": 1, "b": 2}), {"a": id_of("a"), "c": id_of("c")}, seconds=1)
    assert found(store, "a", "b", "c") == {"a"}


def test_what_is_found_again_is_noted_once(tmp_path: Path) -> None:
    names = one_record_each(tmp_path, 3)
    store = a_store(tmp_path)
    assert found(store, *names) == found(store, *names) == {*names}
    (running,) = [path for path in (tmp_path / "running").iterdir() if path.stat().st_size]
    assert sorted(running.read_bytes()[at : at + 16] for at in (0, 16, 32)) == sorted(map(id_of, names))
    assert running.stat().st_size == 48
    store.close()


def test_what_an_earlier_version_packed_is_not_kept(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.add(memoryview(b"".join(pack([1, 2]))), {"a": id_of("a")}, seconds=1)
    assert found(store, "a") == set()


def test_looking_makes_nothing(tmp_path: Path) -> None:
    store = a_store(tmp_path / "nowhere")
    assert found(store, "a") == set()
    store.drop([id_of("a")])
    store.close()
    assert not (tmp_path / "nowhere").exists()


def test_what_is_not_there_is_damaged_by_its_id(tmp_path: Path) -> None:
    with pytest.raises(DamagedResultError) as raised:
        read(a_store(tmp_path), "a")
    assert raised.value.name == id_of("a").hex()


def test_what_was_dropped_is_never_found_again_until_it_is_added_again(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    keep(store, a=1, b=2)
    store.close()
    store = a_store(tmp_path)
    keep(store, c=3)
    store.drop([id_of("a"), id_of("c"), id_of("nowhere")])
    assert found(store, "a", "b", "c") == {"b"}
    store.close()
    store = a_store(tmp_path)
    assert found(store, "a", "b", "c") == {"b"}
    keep(store, a=10)
    store.drop([id_of("a")])
    keep(store, a=11)
    assert read(store, "a") == {"a": 11}
    store.close()
    assert read(a_store(tmp_path), "a", "b") == {"a": 11, "b": 2}


def test_a_dropped_result_does_not_stand_for_the_same_one_of_a_later_pack() -> None:
    ids = [id_of("a"), id_of("b")]
    rows = np.zeros(2, ROW)
    rows["id"] = np.frombuffer(b"".join(ids), rows["id"].dtype)
    table = PackTable([Pack(Path(name), Content(rows, (), 0)) for name in ("first", "second")])
    assert [table.rows_there(number).tolist() for number in (0, 1)] == [[True, True], [False, False]]
    table.hide_in(0, ids[0])
    assert [table.rows_there(number).tolist() for number in (0, 1)] == [[False, True], [True, False]]
    assert [table.place(entry).pack.path.name for entry in table.entries(ids)] == ["second", "first"]


def test_two_runs_may_add_the_same(tmp_path: Path) -> None:
    one, other = a_store(tmp_path), a_store(tmp_path)
    keep(one, a=1)
    keep(other, a=1, b=2)
    one.close()
    other.close()
    third = a_store(tmp_path)
    assert read(third, "a", "b") == {"a": 1, "b": 2}
    third.drop([id_of("a")])
    assert found(third, "a", "b") == {"b"}
    assert there(tmp_path, "a", "b") == {"b"}


def test_a_running_process_is_seen_by_others(tmp_path: Path) -> None:
    one = a_store(tmp_path)
    keep(one, a=1)
    other = a_store(tmp_path)
    assert read(other, "a") == {"a": 1}
    one.close()
    assert read(other, "a") == {"a": 1}


# what may be damaged


def the_pack(folder: Path) -> Path:
    (found,) = (folder / "packs").glob("*.pack")
    return found


def forget_what_was_made() -> None:
    run_key._made.clear()  # what only a process knows


def one_record_each(folder: Path, count: int) -> list[str]:
    store = a_store(folder)
    names = [f"n{number}" for number in range(count)]
    for number, name in enumerate(names):
        keep(store, **{name: "x" * number})
    store.close()
    return names


@given(st.data())
def test_a_pack_cut_anywhere_has_the_records_before(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("store")
    names = one_record_each(folder, 5)
    path = the_pack(folder)
    size = path.stat().st_size
    content = ResultFolder(folder).content(path)
    ends = (content.rows["offset"] + content.rows["length"]).tolist()
    cut = data.draw(st.integers(0, size))
    if data.draw(st.booleans()):
        path.with_suffix(".idx").unlink()
    if data.draw(st.booleans()):
        content_ = path.read_bytes()[:cut] + data.draw(st.binary(max_size=100))
        path.with_suffix(".idx").unlink(missing_ok=True)
        path.write_bytes(content_)
    else:
        os.truncate(path, cut)
    expected = {name for name, end in zip(names, ends, strict=True) if end <= cut}
    store = a_store(folder)
    seen = found(store, *names)
    assert seen >= expected
    for name in seen:
        if name in expected:
            assert read(store, name) == {name: "x" * names.index(name)}
        else:
            with pytest.raises(DamagedResultError):
                read(store, name)
    keep(store, more=1)
    store.close()
    assert there(folder, "more", *expected) == {"more", *expected}


@given(st.data())
def test_a_changed_byte_is_noticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("store")
    names = one_record_each(folder, 3)
    victim = data.draw(st.sampled_from([the_pack(folder), the_pack(folder).with_suffix(".idx")]))
    content = bytearray(victim.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    victim.write_bytes(content)
    if data.draw(st.booleans()):
        the_pack(folder).with_suffix(".idx").unlink(missing_ok=True)
    store = a_store(folder)
    for name in found(store, *names):
        try:
            assert read(store, name) == {name: "x" * names.index(name)}
        except DamagedResultError as problem:
            store.drop([bytes.fromhex(problem.name)])
    store.close()


def test_results_sealed_with_another_key_are_not_used(tmp_path: Path) -> None:
    one_record_each(tmp_path / "mine", 3)
    one_record_each(tmp_path / "theirs", 4)
    for path in (tmp_path / "theirs" / "packs").iterdir():
        path.rename(tmp_path / "mine" / "packs" / path.name)
    assert there(tmp_path / "mine", "n2", "n3") == {"n2"}


def test_without_its_key_nothing_is_used(tmp_path: Path) -> None:
    names = one_record_each(tmp_path, 3)
    (tmp_path / "key").chmod(0o644)
    forget_what_was_made()
    warnings: list[str] = []
    store = a_store(tmp_path, warnings=warnings)
    assert found(store, *names) == set()
    assert warnings == [f"{tmp_path}/key is missing, or not yours alone: the results beside it are not used"]
    keep(store, n0="new")
    store.close()
    later = a_store(tmp_path)
    assert found(later, *names) == {"n0"}
    assert read(later, "n0") == {"n0": "new"}


def test_a_pack_that_goes_meanwhile_is_missed_and_nothing_else(tmp_path: Path) -> None:
    names = one_record_each(tmp_path, 3)
    store = a_store(tmp_path)
    assert found(store, *names) == {*names}
    for file in (tmp_path / "packs").iterdir():
        file.unlink()
    with pytest.raises(DamagedResultError):
        read(store, "n1")
    store.drop([id_of("n1")])
    keep(store, n1=5)
    assert read(store, "n1") == {"n1": 5}
    store.close()


def test_a_store_of_another_version_is_left_alone(tmp_path: Path) -> None:
    names = one_record_each(tmp_path, 2)
    (tmp_path / "version").write_text("2\n")
    before = sorted(tmp_path.rglob("*"))
    warnings: list[str] = []
    store = a_store(tmp_path, warnings=warnings)
    assert found(store, *names) == set()
    keep(store, a=1)
    store.close()
    assert sorted(tmp_path.rglob("*")) == before
    assert warnings == [
        f"results are not kept for later runs: {tmp_path} is of another version of Cenote (2, this one is 1)"
    ]


# what may go wrong

ADDS = """
import hashlib, sys
from pathlib import Path
from cenote.execution.runtime.result_store.folders import ResultFolder
from cenote.execution.runtime.result_store.store import ResultStore
from cenote.execution.worker.results.bundle import pack

store = ResultStore(ResultFolder(Path(sys.argv[1])), limit=10**9, warn=print)
for number in range(100_000):
    name = f"{sys.argv[2]}{number}"
    one = hashlib.blake2b(name.encode(), digest_size=16).digest()
    store.add(memoryview(b"".join(pack({"x": name * 50}))), {"x": one}, seconds=1.0)
    print(number, flush=True)
    if number % 50 == 49 and sys.argv[3:]:
        store.close()
"""


@pytest.mark.parametrize("closes", [[], ["and closes"]], ids=["while it adds", "while it closes"])
def test_what_a_killed_process_added_is_there(tmp_path: Path, closes: list[str]) -> None:
    lines = 0
    for round_, least in enumerate([1, 60, 260]):
        command = [sys.executable, "-c", ADDS, str(tmp_path), f"r{round_}-", *closes]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines = int(line)
                if lines >= least:
                    process.send_signal(signal.SIGKILL)
            process.wait()
        store = a_store(tmp_path)
        names = [f"r{round_}-{number}" for number in range(lines + 1)]
        assert found(store, *names) == {*names}
        for name in names:
            assert read(store, name) == {name: name * 50}
        keep(store, **{f"after{round_}": round_})
        store.close()
    assert read(a_store(tmp_path), "after0", "after2") == {"after0": 0, "after2": 2}


@pytest.fixture
def no_file_grows() -> Iterator[Callable[[int], None]]:
    """As on a full disk: no file may become larger than so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_on_a_full_disk_the_run_goes_on_and_what_was_whole_stays(
    tmp_path: Path, no_file_grows: Callable[[int], None]
) -> None:
    warnings: list[str] = []
    store = a_store(tmp_path, warnings=warnings)
    keep(store, a="a" * 1000)
    no_file_grows(5000)
    keep(store, b="b" * 10_000)
    keep(store, c="c" * 10_000)
    assert found(store, "a", "b", "c") == {"a"}
    store.close()
    assert len(warnings) == 1
    assert "results are not kept for later runs" in warnings[0]
    assert read(a_store(tmp_path), "a") == {"a": "a" * 1000}


def test_a_file_in_the_place_of_the_store_is_told_of_once(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("mine")
    warnings: list[str] = []
    store = a_store(tmp_path / "store", warnings=warnings)
    assert found(store, "a") == set()
    keep(store, a=1)
    keep(store, b=1)
    store.close()
    assert len(warnings) == 1
    assert (tmp_path / "store").read_text() == "mine"


def test_a_read_only_store_is_read(tmp_path: Path) -> None:
    names = one_record_each(tmp_path, 3)
    child = os.fork()
    if not child:
        try:
            read_only_child(tmp_path, names)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def read_only_child(folder: Path, names: Sequence[str]) -> None:
    """As a user who may write nothing there, although the store is theirs."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    capabilities_gone()
    warnings: list[str] = []
    store = a_store(folder, warnings=warnings)
    assert found(store, *names, "new") == {*names}
    assert read(store, "n2") == {"n2": "xx"}
    assert warnings == []
    keep(store, new=1)
    store.drop([id_of("n1")])
    assert found(store, *names, "new") == {"n0", "n2"}
    store.close()
    assert warnings == [f"results are not kept for later runs: {folder}: permission denied"]


def capabilities_gone() -> None:
    """What lets root write everywhere."""
    capset = ctypes.CDLL(None, use_errno=True).capset
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert capset(header, nothing) == 0


# what stays below the limit


def aged(folder: Path, days: float) -> None:
    """As if everything there had been of use so many days ago."""
    store = ResultFolder(folder)
    for pack_ in store.known_packs():
        store.note_used(pack_, np.full(len(pack_.content.rows), int(time.time() - days * 86_400), np.uint32))


def sizes(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "packs").iterdir())


def test_what_was_of_no_use_for_longest_goes_first(tmp_path: Path) -> None:
    for number in range(10):
        store = a_store(tmp_path)
        keep(store, **{f"n{number}": os.urandom(MB)})
        store.close()
        aged(tmp_path, 40 - 4 * number if number != 1 else 1)
    names = [f"n{number}" for number in range(10)]
    store = a_store(tmp_path)
    assert found(store, "n0") == {"n0"}
    store.close()
    store = a_store(tmp_path, limit=5 * MB)
    keep(store, last=1)
    store.close()
    assert sizes(tmp_path) < 5 * MB
    left = there(tmp_path, *names, "last")
    assert {"n0", "last"} <= left
    assert len(left) == 5


def test_what_this_run_found_or_added_stays_beyond_the_limit(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    keep(store, a=os.urandom(MB), b=os.urandom(MB))
    store.close()
    store = a_store(tmp_path, limit=MB)
    assert found(store, "a") == {"a"}
    keep(store, c=os.urandom(MB // 2))
    keep(store, d=os.urandom(MB))
    store.close()
    assert there(tmp_path, "a", "b", "c", "d") == {"a", "c"}


def test_what_another_running_process_found_or_added_stays(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    keep(store, a=os.urandom(MB), b=os.urandom(MB))
    store.close()
    other = a_store(tmp_path)
    assert found(other, "a") == {"a"}
    keep(other, c=os.urandom(MB))
    small = a_store(tmp_path, limit=1000)
    keep(small, d=1)
    small.close()
    assert there(tmp_path, "a", "b", "c", "d") == {"a", "c", "d"}
    assert [len(value) for value in read(other, "a", "c").values()] == [MB, MB]
    other.close()
    small = a_store(tmp_path, limit=1000)
    keep(small, e=1)
    small.close()
    assert not there(tmp_path, "a", "c")


def test_of_what_was_alike_of_use_the_cheapest_goes_first(tmp_path: Path) -> None:
    for number in range(4):
        store = a_store(tmp_path)
        keep(store, seconds=[50, 1, 100, 2][number], **{f"n{number}": os.urandom(MB)})
        store.close()
    aged(tmp_path, 3)
    store = a_store(tmp_path, limit=5 * MB // 2)
    keep(store, last=1)
    store.close()
    assert there(tmp_path, "n0", "n1", "n2", "n3") == {"n0", "n2"}


def test_a_pack_is_written_again_when_little_of_it_is_left(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    for number in range(10):
        keep(store, **{f"n{number}": os.urandom(100_000)})
    store.drop([id_of(f"n{number}") for number in range(9)])
    store.close()
    reader = a_store(tmp_path)
    content = read(reader, "n9")
    store = a_store(tmp_path)
    keep(store, more=1)
    store.close()
    assert sizes(tmp_path) < 200_000
    assert read(a_store(tmp_path), "n9") == content == read(reader, "n9")
    assert list((tmp_path / "dropped").iterdir()) == []


def test_many_small_packs_become_one(tmp_path: Path) -> None:
    for number in range(20):
        store = a_store(tmp_path)
        keep(store, **{f"n{number}": number})
        store.close()
    assert len(list((tmp_path / "packs").glob("*.pack"))) < 10
    later = a_store(tmp_path)
    assert read(later, "n0", "n19") == {"n0": 0, "n19": 19}


def test_a_limit_of_nothing_keeps_nothing(tmp_path: Path) -> None:
    store = a_store(tmp_path / "store", limit=0)
    keep(store, a=1)
    assert found(store, "a") == set()
    store.close()
    assert not (tmp_path / "store").exists()
