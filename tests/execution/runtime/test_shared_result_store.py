"""Several people share a store: each reads what trusted others signed, and nothing else."""

from __future__ import annotations

import hashlib
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cenote.execution.runs.folder import RunFolder
from cenote.execution.runtime.result_store.folders import ResultFolder
from cenote.execution.runtime.result_store.store import ResultStore, open_store
from cenote.execution.runtime.result_store.table import Person, myself, person_in, trust, trusted_people
from cenote.execution.worker.results.bundle import pack, unpack
from cenote.execution.worker.results.store import DamagedResultError
from cenote.language.execution import StoreSettings

GROUP, ALICE, BOB = 61000, 61001, 61002
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two other users")


def id_of(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def keep(store: ResultStore, **products: Any) -> None:
    packed = memoryview(b"".join(pack(products)))
    store.add(packed, {name: id_of(name) for name in products}, seconds=1.0)


def found(store: ResultStore, *names: str) -> set[str]:
    there = store.find(map(id_of, names))
    return {name for name in names if id_of(name) in there}


def read(store: ResultStore, name: str) -> Any:
    return unpack(b"".join(store.packed({name: id_of(name)})))[name]


class Thing:
    """Not data."""


@pytest.fixture
def group() -> Iterator[Path]:
    """A folder that a group shares, as its docs say."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # others can reach it
        path = Path(folder)
        path.chmod(0o755)
        (path / "store").mkdir()
        if os.geteuid() == 0:
            os.chown(path / "store", -1, GROUP)
        (path / "store").chmod(0o3770)
        yield path


class Account:
    """Somebody with a home of their own; with root's help a Unix account of their own as well."""

    def __init__(self, folder: Path, name: str, uid: int | None) -> None:
        self.store, self.home, self.uid = folder / "store", folder / name, uid
        self.home.mkdir(mode=0o700)
        if uid is not None:
            os.chown(self.home, uid, uid)

    def does(self, act: Callable[[Account], Any]) -> None:
        """In a process of their own."""
        child = os.fork()
        if not child:
            try:
                if self.uid is not None:
                    os.setgroups([GROUP])
                    os.setgid(self.uid)  # a group of their own comes first, as is usual
                    os.setuid(self.uid)
                os.environ["HOME"], os.environ["LOGNAME"] = str(self.home), self.home.name
                os.environ["XDG_CONFIG_HOME"] = str(self.home / ".config")
                os.environ["CENOTE_CACHE"] = str(self.home / ".cache")
                act(self)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    def open(self, warnings: list[str] | None = None) -> ResultStore:
        def refuse(words: str) -> None:
            raise AssertionError(words)

        settings = StoreSettings(path=str(self.store))
        warn = refuse if warnings is None else warnings.append
        return open_store(settings, RunFolder(self.home / "run"), warn)

    def shows_key(self) -> None:
        self.does(lambda one: (one.store.parent / f"{one.home.name}.key").write_text(myself().written()))

    def trusts(self, other: Account) -> None:
        line = (self.store.parent / f"{other.home.name}.key").read_text()
        self.does(lambda _: trust([person_in(line)]))


@pytest.fixture(params=["one account", pytest.param("two accounts", marks=as_root)])
def people(request: pytest.FixtureRequest, group: Path) -> tuple[Account, Account]:
    two = request.param == "two accounts"
    group.chmod(0o777)
    alice, bob = Account(group, "alice", ALICE if two else None), Account(group, "bob", BOB if two else None)
    alice.shows_key()
    bob.shows_key()
    return alice, bob


def keeps_a_few(one: Account) -> None:
    warnings: list[str] = []
    store = one.open(warnings)
    keep(store, counts=np.arange(10_000), thing=Thing(), total={"n": 3})
    store.close()
    assert all("not trusted" in words for words in warnings)


def test_each_reads_data_of_trusted_others_and_nothing_else(people: tuple[Account, Account]) -> None:
    alice, bob = people

    def finds_nothing(one: Account) -> None:
        warnings: list[str] = []
        store = one.open(warnings)
        assert found(store, "counts", "total") == set()
        assert [words for words in warnings if "not trusted" in words] == warnings != []
        keep(store, own=1)
        store.close()

    def finds_data(one: Account) -> None:
        store = one.open()
        assert found(store, "counts", "thing", "total", "own") == {"counts", "total", "own"}
        assert np.array_equal(read(store, "counts"), np.arange(10_000))
        assert store.owner_of(id_of("counts")).startswith("alice@")
        assert store.owner_of(id_of("own")) == ""
        store.drop([id_of("counts")])
        assert found(store, "counts", "total") == {"total"}
        keep(store, counts=0)
        assert read(store, "counts") == 0
        store.close()

    def still_has_all(one: Account) -> None:
        store = one.open([])
        assert found(store, "counts", "thing", "total", "own") == {"counts", "thing", "total"}
        assert np.array_equal(read(store, "counts"), np.arange(10_000))
        store.close()

    alice.does(keeps_a_few)
    bob.does(finds_nothing)
    bob.trusts(alice)
    bob.does(finds_data)
    alice.does(still_has_all)


def test_what_is_forged_damaged_or_unsigned_is_not_used_and_named(people: tuple[Account, Account]) -> None:
    alice, bob = people
    bob.trusts(alice)
    alice.does(keeps_a_few)
    (folder,) = [path for path in alice.store.iterdir() if path.is_dir()]
    (index,) = (folder / "packs").glob("*.idx")
    (pack_,) = (folder / "packs").glob("*.pack")
    whole, data = index.read_bytes(), pack_.read_bytes()

    def does_not_use(one: Account) -> None:
        warnings: list[str] = []
        store = one.open(warnings)
        assert found(store, "counts", "total") == set()
        assert len(warnings) == 1
        assert "has not signed what is in it" in warnings[0]

    def finds_it_damaged(one: Account) -> None:
        store = one.open()
        assert found(store, "counts", "total") == {"counts", "total"}
        with pytest.raises(DamagedResultError):
            read(store, "counts")

    index.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    bob.does(does_not_use)
    index.write_bytes(whole[:-64] + bytes(64))
    bob.does(does_not_use)
    index.write_bytes(whole)
    pack_.write_bytes(data.replace(bytes(range(1, 2)), b"\x02"))
    bob.does(finds_it_damaged)
    pack_.unlink()
    os.mkfifo(pack_)
    bob.does(finds_it_damaged)
    index.unlink()
    index.symlink_to("/etc/passwd")
    bob.does(does_not_use)


def test_nobody_passes_for_somebody_else(people: tuple[Account, Account]) -> None:
    alice, bob = people
    bob.trusts(alice)

    def forges(one: Account) -> None:
        """Alice's name over results of one's own."""
        alices = person_in((one.store.parent / "alice.key").read_text())
        folder = ResultFolder(one.store / alices.fingerprint, 0o644, one.home / ".config" / "cenote" / "store")
        store = ResultStore(folder, limit=10**9, warn=print)
        keep(store, total={"n": 666})
        store.close()
        (folder.path / "owner").write_text(alices.written())

    def finds_nothing(one: Account) -> None:
        warnings: list[str] = []
        assert found(one.open(warnings), "total") == set()
        assert len(warnings) == 1
        assert "has not signed" in warnings[0]

    def cannot_be_fooled(one: Account) -> None:
        """Alice, whose folder somebody else made."""
        warnings: list[str] = []
        store = one.open(warnings)
        assert found(store, "total") == set()
        keep(store, total=1)
        store.close()
        if one.uid is not None:
            assert "is not yours alone" in warnings[0]

    mallory = Account(alice.store.parent, "mallory", None if alice.uid is None else BOB + 1)
    mallory.does(forges)
    bob.does(finds_nothing)
    alice.does(cannot_be_fooled)


@as_root
def test_no_other_account_can_change_or_remove_a_result(group: Path) -> None:
    group.chmod(0o777)
    alice, bob = Account(group, "alice", ALICE), Account(group, "bob", BOB)
    alice.does(keeps_a_few)
    (folder,) = alice.store.iterdir()

    def tries(_: Account) -> None:
        files = [path for path in folder.rglob("*") if path.is_file()]
        for act in (lambda path: path.unlink(), lambda path: path.open("r+b"), lambda path: path.rename(f"{path}x")):
            for path in [*files, folder]:
                with pytest.raises(OSError):  # noqa: PT011  # of several kinds
                    act(path)

    bob.does(tries)


def test_a_folder_where_anybody_may_remove_anything_is_told_of(people: tuple[Account, Account]) -> None:
    alice, _ = people
    alice.store.chmod(0o777)

    def is_told(one: Account) -> None:
        warnings: list[str] = []
        found(one.open(warnings), "x")
        words = f"whoever may write to {one.store} may remove what others keep there: `chmod +t {one.store}`"
        assert warnings == [words]

    alice.does(is_told)


def test_a_key_is_a_line_with_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    me = myself()
    assert person_in(me.written()) == me
    assert trusted_people() == []
    other = Person(bytes(32), "Bob of the muon group")
    assert trust([me, other]) == [me, other]
    assert trust([other]) == []
    assert trusted_people() == [me, other]
    for wrong in ("", "ssh-ed25519 AAAA me", "cenote-store AAAA me", "cenote-store"):
        with pytest.raises(ValueError, match="no key of a store"):
            person_in(wrong)
    (tmp_path / "cenote" / "store" / "trusted").chmod(0o666)
    with pytest.raises(PermissionError):
        trusted_people()


@as_root
def test_what_nobody_else_may_read_is_named(group: Path) -> None:
    (group / "store").chmod(0o1770)  # what is in it is not the group's
    group.chmod(0o777)
    alice, bob = Account(group, "alice", ALICE), Account(group, "bob", BOB)
    alice.does(keeps_a_few)

    def is_told(one: Account) -> None:
        warnings: list[str] = []
        assert found(one.open(warnings), "counts") == set()
        (theirs,) = one.store.iterdir()
        assert warnings == [f"{theirs} is not used: you may not read it"]

    bob.does(is_told)
