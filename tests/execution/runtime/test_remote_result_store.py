"""Several people share a store at an address: each reads what trusted others signed, and failures cost time alone."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.common import errors
from cenote.engine.messages import TaskDone
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.journal import read_events
from cenote.execution.runtime.result_store.look import clean, content_of, damage_in
from cenote.execution.runtime.result_store.store import ResultStore, open_store
from cenote.execution.runtime.result_store.table import myself, person_in, trust
from cenote.execution.worker.results.bundle import pack, unpack
from cenote.execution.worker.results.store import DamagedResultError
from cenote.language.execution import StoreSettings
from cenote.testing.muons import write_muons

ADDRESS = "s3://group/store"


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


class Server:
    """What speaks S3 on this machine, with one bucket."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.url = f"http://{host}:{port}"
        self.runs = True

    def client(self) -> Any:
        import botocore.session

        return botocore.session.get_session().create_client("s3", region_name="us-east-1", endpoint_url=self.url)

    def objects(self) -> Mapping[str, bytes]:
        client = self.client()
        listed = client.list_objects_v2(Bucket="group").get("Contents", ())
        names = [one["Key"] for one in listed]
        return {name: client.get_object(Bucket="group", Key=name)["Body"].read() for name in names}

    def put(self, name: str, content: bytes) -> None:
        self.client().put_object(Bucket="group", Key=name, Body=content)

    def remove(self, name: str) -> None:
        self.client().delete_object(Bucket="group", Key=name)

    def stop(self) -> None:
        if self.runs:
            self.runs = False
            self._server.stop()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for needed in ("s3fs", "moto", "flask", "flask_cors"):
        pytest.importorskip(needed)
    from moto.s3.models import s3_backends
    from s3fs import S3FileSystem

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    S3FileSystem.clear_instance_cache()
    running = Server()
    monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
    running.client().create_bucket(Bucket="group")
    yield running
    running.stop()
    s3_backends.reset()
    S3FileSystem.clear_instance_cache()


class Account:
    """Somebody with a key and a cache of their own."""

    def __init__(self, home: Path, machine: str = "here") -> None:
        self.home, self.machine = home, machine
        with self.at_work():
            self.key = myself().written()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(self.home / "config"))
            patch.setenv("CENOTE_CACHE", str(self.home / self.machine))
            patch.setenv("LOGNAME", self.home.name)
            yield

    def trusts(self, other: Account) -> None:
        with self.at_work():
            trust([person_in(other.key)])

    @contextmanager
    def store(self, *expected: str, address: str = ADDRESS) -> Iterator[ResultStore]:
        """Opened and closed by a run that tells of what is expected, a warning each."""
        warnings: list[str] = []
        with self.at_work():
            store = open_store(StoreSettings(path=address), RunFolder(self.home / "run"), warnings.append)
            yield store
            store.close()
        assert len(warnings) == len(expected), warnings
        assert all(words in told for words, told in zip(expected, warnings, strict=True)), warnings

    def keeps(self, **products: Any) -> None:
        with self.store() as store:
            keep(store, **products)


@pytest.fixture
def people(server: Server, tmp_path: Path) -> tuple[Account, Account]:
    assert server.objects() == {}
    alice, bob = Account(tmp_path / "alice"), Account(tmp_path / "bob")
    bob.trusts(alice)
    return alice, bob


def test_each_reads_data_of_trusted_others_and_nothing_else(people: tuple[Account, Account], server: Server) -> None:
    alice, bob = people
    alice.keeps(counts=np.arange(10_000), thing=Thing(), total={"n": 3})
    with bob.store() as store:
        assert found(store, "counts", "thing", "total", "own") == {"counts", "total"}
        assert np.array_equal(read(store, "counts"), np.arange(10_000))
        assert store.owner_of(id_of("counts")).startswith("alice@")
        keep(store, own=1)
    (packed,) = (bob.home / "here").rglob("others/*/packs/*.pack")
    assert not packed.stat().st_size  # packs stay where they are
    with alice.store("as their keys are not trusted") as store:
        assert found(store, "counts", "thing", "total", "own") == {"counts", "thing", "total"}
    people_there = {name.split("/")[1] for name in server.objects()}
    assert people_there == {person_in(one.key).fingerprint for one in people}


FLOW = """
data: {{datasets: [{{name: d, files: ["{folder}/*.root"]}}]}}
sources: {{events: {{kind: root_tree, chunk_size: 500}}}}
analysis:
  stages:
    - {{id: Hard, op: filter, params: {{expr: MET_pt > 20}}}}
    - id: H
      op: hep.hist
      params: {{axes: [{{name: x, source: MET_pt, bins: {{nbins: 20, low: 0, high: 200}}}}]}}
      render: []
execution: {{store: "{address}", pools: {{default: {{workers: 1}}}}}}
"""


def test_a_colleague_runs_the_same_without_reading_events(people: tuple[Account, Account], tmp_path: Path) -> None:
    alice, bob = people
    write_muons(tmp_path / "a.root", events=2000)
    flow = tmp_path / "flow.yaml"
    flow.write_text(FLOW.format(folder=tmp_path, address=ADDRESS))
    with alice.at_work():
        first = cenote.load(flow).run(alice.home / "out")
    with bob.at_work():
        again = cenote.load(flow).run(bob.home / "out")
    assert again.product("H") == first.product("H")
    assert not any(isinstance(event, TaskDone) for event in read_events(bob.home / "out"))
    (owner,) = json.loads(RunFolder(bob.home / "out").provenance.read_text())["results_of"]
    assert owner.startswith("alice@")


def test_an_index_is_fetched_once(people: tuple[Account, Account]) -> None:
    alice, bob = people
    alice.keeps(total=3)
    with bob.store() as store:
        assert read(store, "total") == 3
    (index,) = (bob.home / "here").rglob("*.idx")
    before = index.stat().st_ino
    with bob.store() as store:
        assert read(store, "total") == 3
    assert index.stat().st_ino == before


def test_another_machine_of_the_same_person_finds_everything_and_removes_nothing(
    people: tuple[Account, Account], server: Server
) -> None:
    alice, _ = people
    alice.keeps(thing={"a": 1}, total=3)
    there = server.objects()
    elsewhere = Account(alice.home, "elsewhere")
    with elsewhere.store() as store:
        assert found(store, "thing", "total") == {"thing", "total"}
        assert read(store, "total") == 3
        assert store.owner_of(id_of("total")) == ""
        keep(store, new=1)
    assert there.keys() < server.objects().keys()
    with alice.store() as store:
        assert found(store, "new", "total") == {"new", "total"}


def test_what_is_forged_damaged_or_unsigned_is_not_used_and_named(
    people: tuple[Account, Account], server: Server
) -> None:
    alice, bob = people
    alice.keeps(counts=np.arange(10_000), total={"n": 3})
    objects = server.objects()
    (index,) = [name for name in objects if name.endswith(".idx")]
    (packed,) = [name for name in objects if name.endswith(".pack")]
    whole, data = objects[index], objects[packed]
    for forged in (whole[:100] + bytes([whole[100] ^ 1]) + whole[101:], whole[:-64] + bytes(64), b"", whole[:-1]):
        server.put(index, forged)
        with bob.store("has not signed what is in it") as store:
            assert found(store, "counts", "total") == set()
    server.put(index, whole)
    server.put(packed, data[:-1])
    with bob.store(f"s3://group/{packed} is not used: it is cut short") as store:
        assert found(store, "counts", "total") == set()
    server.put(packed, data.replace(bytes(range(1, 2)), b"\x02"))
    with bob.store() as store:
        assert found(store, "counts", "total") == {"counts", "total"}
        with pytest.raises(DamagedResultError):
            read(store, "counts")
    server.put(packed, data)
    server.remove(index)
    with bob.store() as store:
        assert found(store, "counts", "total") == set()


def test_nobody_passes_for_somebody_else(people: tuple[Account, Account], server: Server, tmp_path: Path) -> None:
    alice, bob = people
    mallory = Account(tmp_path / "mallory")
    mallory.keeps(total=666)
    own, alices = (person_in(one.key).fingerprint for one in (mallory, alice))
    for name, content in server.objects().items():
        server.put(name.replace(own, alices), alice.key.encode() if name.endswith("owner") else content)
        server.remove(name)
    with bob.store("has not signed what is in it") as store:
        assert found(store, "total") == set()


def test_a_pack_that_vanished_is_computed_again_and_comes_back(people: tuple[Account, Account], server: Server) -> None:
    alice, bob = people
    alice.keeps(total=3)
    objects = server.objects()
    (packed,) = [name for name in objects if name.endswith(".pack")]
    with bob.store() as store:
        assert found(store, "total") == {"total"}
        server.remove(packed)
        with pytest.raises(DamagedResultError):
            read(store, "total")
        store.drop([id_of("total")])
        assert found(store, "total") == set()
    server.put(packed, objects[packed])
    with bob.store() as store:
        assert read(store, "total") == 3


def test_a_server_that_stops_is_told_of_once_and_nothing_is_lost(
    people: tuple[Account, Account], server: Server
) -> None:
    alice, bob = people
    alice.keeps(counts=1, total=3)
    with bob.store(f"{ADDRESS} is not used from here on") as store:
        assert found(store, "counts", "total") == {"counts", "total"}
        server.stop()
        for name in ("counts", "total"):
            with pytest.raises(DamagedResultError):
                read(store, name)
        store.drop([id_of("counts"), id_of("total")])
        keep(store, counts=1, own=2)
        assert read(store, "own") == 2
    with bob.store(f"{ADDRESS} is not used from here on") as store:
        assert found(store, "counts", "total", "own") == {"counts", "own"}
    (dropped,) = (bob.home / "here").rglob("dropped")
    assert not [*dropped.iterdir()]


def test_what_could_not_be_sent_is_sent_by_a_later_run(people: tuple[Account, Account], server: Server) -> None:
    alice, bob = people
    alice.keeps(first=1)
    there = server.objects()
    (index,) = [name for name in there if name.endswith(".idx")]
    (packed,) = [name for name in there if name.endswith(".pack")]
    server.put(packed, there[packed][:50])
    server.remove(index)
    alice.keeps(second=2)
    with bob.store() as store:
        assert (read(store, "first"), read(store, "second")) == (1, 2)


def test_packs_that_were_written_again_take_the_place_of_the_earlier_ones(
    people: tuple[Account, Account], server: Server
) -> None:
    alice, bob = people
    names = [f"n{number}" for number in range(17)]
    for name in names[:16]:
        alice.keeps(**{name: 1})
    with bob.store() as store:
        assert found(store, *names) == {*names[:16]}
        alice.keeps(n16=1)  # so many small packs become one
        assert sum(name.endswith(".pack") for name in server.objects()) < 16
        assert read(store, "n3") == 1
    with bob.store() as store:
        assert found(store, *names) == {*names}


def test_a_bucket_that_is_missing_ends_no_run(people: tuple[Account, Account]) -> None:
    alice, _ = people
    for _ in range(2):
        with alice.store("s3://nowhere/store is not used from here on", address="s3://nowhere/store") as store:
            keep(store, total=3)
            assert read(store, "total") == 3


def test_commands_look_after_it(people: tuple[Account, Account], server: Server) -> None:
    from cenote.execution.runtime.result_store.remote import RemoteStore

    alice, bob = people
    alice.keeps(total=3, counts=np.arange(1000))
    Account(alice.home, "elsewhere").keeps(other=1)
    bob.keeps(own=1)
    with bob.at_work():
        content = content_of(RemoteStore(ADDRESS, pytest.fail), pytest.fail)
        assert (str(content.place), content.shared, content.results) == (ADDRESS, True, 1)
        assert [(one.name.partition("@")[0], one.results) for one in content.people] == [("alice", 3)]
        assert [*damage_in(RemoteStore(ADDRESS, pytest.fail), pytest.fail)] == []
    (packed, *_) = [name for name, data in server.objects().items() if len(data) > 5000 and name.endswith(".pack")]
    server.put(packed, server.objects()[packed].replace(bytes(range(1, 2)), b"\x02"))
    with bob.at_work():
        (damage,) = damage_in(RemoteStore(ADDRESS, pytest.fail), pytest.fail)
        assert (damage.pack, damage.name) == (f"s3://group/{packed}", "counts")
        assert clean(RemoteStore(ADDRESS, pytest.fail), limit=0) > 0
    mine = person_in(bob.key).fingerprint
    assert not [name for name in server.objects() if mine in name and "/packs/" in name]
    with alice.at_work():
        assert clean(RemoteStore(ADDRESS, pytest.fail), unused_for=0) > 0
    assert not [name for name in server.objects() if "/packs/" in name]


def test_software_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "s3fs" else there(name))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(errors.CenoteError) as raised:
        open_store(StoreSettings(path=ADDRESS), RunFolder(tmp_path / "run"), pytest.fail)
    (problem,) = raised.value.problems
    assert problem.hint == "pip install 'cenote[s3]'"
    with pytest.raises(errors.CenoteError, match="nothing://there"):
        open_store(StoreSettings(path="nothing://there"), RunFolder(tmp_path / "run"), pytest.fail)
