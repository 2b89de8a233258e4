"""What travels through the doors: files, limits, requests that are sent twice, events, and what the document says."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

import cenote
from cenote.common.errors import CenoteError
from cenote.service.client.asking import Ask, create
from cenote.service.client.connection import Connection
from cenote.service.client.line import Line
from cenote.service.client.records import (
    HeardEvent,
    LivePoolRecord,
    NewPool,
    NewTask,
    OutputRecord,
    QueuedTaskRecord,
    UploadedFile,
)
from cenote.service.http.answers import ROUTES
from cenote.service.http.limits import Buckets, Rate, neighbourhood
from cenote.service.http.openapi import document_of
from cenote.service.server.kept_output import UploadLimits, Uploads

from .conftest import OpenService, wait_for


@pytest.fixture(scope="module")
def alice(doors: OpenService) -> Iterator[Connection]:
    with doors.person("alice") as made:
        yield made


@pytest.fixture(scope="module")
def pool(doors: OpenService) -> Iterator[str]:
    with doors.owner() as owner:
        made = owner.create_pool("pool", "local", 2).submit()
        yield made.id
        made.delete()


# Lists


def test_a_long_list_is_sent_piece_by_piece(doors: OpenService, alice: Connection) -> None:
    pool = alice.create_pool("without workers", "local", 0).submit()
    task = alice.create_task("many", pool, 5000)
    task.command = "true"
    task.submit()
    path = f"/v1/tasks/{task.uuid}/instances"
    long = doors.ask("GET", path, token=doors.token("alice"))
    short = doors.ask("GET", f"{path}?last=10", token=doors.token("alice"))
    pool.delete()

    assert [one["number"] for one in long.json] == list(range(5000))
    assert "Content-Length" not in long.headers
    assert int(short.headers["Content-Length"]) == len(short.content)


# Files


def test_files_travel_both_ways_without_the_user_noticing(alice: Connection, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\ncat numbers ../shared; echo of $INSTANCE_ID > left\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "numbers").write_text("1 2 3\n")
    (tmp_path / "shared").write_text("for all\n")
    own = alice.create_pool("with files", "local", 1)
    own.resources = [str(tmp_path / "shared")]
    with own:
        for name in ("first", "again"):
            task = alice.create_task(name, own, 1)
            task.resources = [str(tmp_path / "tool"), str(tmp_path / "numbers")]
            task.command, task.results = "./tool", ["left"]
            assert task.wait(timeout=60), task.stderr()
            assert task.stdout() == "1 2 3\nfor all\n"
            (left,) = task.download_results(tmp_path / name)
            assert left.read_text() == "of 0\n"
        missing = alice.create_task("missing", own, 1)
        missing.command, missing.resources = "true", ["no-such-file"]
        with pytest.raises(CenoteError, match="no-such-file"):
            missing.submit()


def test_uploads_are_private_and_must_be_what_they_say(doors: OpenService, pool: str) -> None:
    content = uuid.uuid4().bytes
    digest = hashlib.sha256(content).hexdigest()
    mine, other = doors.token("alice"), doors.token("bob")
    assert doors.ask("PUT", f"/v1/uploads/{digest}", token=mine, body=content).status == 201
    assert doors.ask("GET", f"/v1/uploads/{digest}", token=mine).json["size"] == 16
    assert doors.ask("GET", f"/v1/uploads/{digest}", token=other).status == 404
    assert doors.ask("PUT", f"/v1/uploads/{'0' * 64}", token=mine, body=content).status == 400
    assert doors.ask("PUT", "/v1/uploads/..%2F..%2Fetc", token=mine, body=content).status == 400
    for token, name, status in ((other, "x", 404), (mine, "../x", 400), (mine, "x", 201)):
        new = NewTask(name="t", pool=pool, command="true", uploads=(UploadedFile(name=name, digest=digest),))
        assert doors.ask("POST", "/v1/tasks", token=token, body=msgspec.json.encode(new)).status == status


def test_uploads_have_a_largest_size_a_quota_and_an_end(tmp_path: Path) -> None:
    now = [1e9]
    kept = Uploads(tmp_path, limits=UploadLimits(largest=10, quota=25, seconds=60), clock=lambda: now[0])

    def send(data: bytes, user: str = "alice") -> str:
        async def parts() -> AsyncIterator[bytes]:
            for at in range(len(data)):
                yield data[at : at + 1]

        digest = hashlib.sha256(data).hexdigest()
        asyncio.run(kept.receive(user, digest, parts()))
        return digest

    first = send(b"1" * 10)
    with pytest.raises(CenoteError, match="and not more"):
        send(b"2" * 11)
    send(b"3" * 10)
    with pytest.raises(CenoteError, match="in all"):
        send(b"4" * 10)
    assert send(b"4" * 10, "bob")
    (placed,) = kept.place("alice", [UploadedFile(name="f", digest=first)], tmp_path / "task" / "resources")
    now[0] += 61
    kept.sweep()
    assert kept.find("alice", first) is None
    assert Path(placed).read_bytes() == b"1" * 10
    assert list(tmp_path.rglob("*.part")) == []
    assert send(b"4" * 10)


# Limits


def test_a_bucket_is_emptied_by_use_and_filled_by_time() -> None:
    now = [0.0]
    buckets = Buckets(Rate(0.5, 2), lambda: now[0])
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 2]
    assert buckets.take("b") == 0
    now[0] = 2.0
    assert [buckets.take("a") for _ in range(2)] == [0, 2]
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::2") != neighbourhood("2001:db8:0:1::1")
    assert neighbourhood("::ffff:10.0.0.1") == "10.0.0.1"


def test_what_is_too_large_is_refused(doors: OpenService) -> None:
    token = doors.token("alice")
    large = doors.ask("POST", "/v1/tasks", token=token, body=b'{"name": "' + b"x" * (1 << 20) + b'"}')
    assert (large.status, large.json["kind"]) == (413, "too-large")
    assert doors.ask("GET", "/v1/service", token=token, X_Long="x" * 10_000).status == 400
    nonsense = doors.ask("POST", "/v1/tasks", token=token, body=b"{")
    assert (nonsense.status, nonsense.json["kind"]) == (400, "bad-value")
    assert doors.ask("GET", "/v1/tasks?nonsense=1", token=token).status == 400
    assert doors.ask("GET", "/v1/nothing", token=token).status == 404


def test_every_answer_has_headers_that_protect_browsers(doors: OpenService) -> None:
    for found in (doors.ask("GET", "/v1/service"), doors.ask("GET", "/v1/service", token=doors.token("alice"))):
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        assert found.headers["Cache-Control"] == "no-store"
        assert "frame-ancestors 'none'" in found.headers["Content-Security-Policy"]
        assert found.headers["Server"] == "cenote"


# Requests that are sent twice


def test_a_request_with_the_same_key_is_done_once(doors: OpenService, alice: Connection, pool: str) -> None:
    task = create("/tasks", QueuedTaskRecord, NewTask(name="once", pool=pool, command="true"))
    assert alice._line.ask(task).id == alice._line.ask(task).id
    assert [one.name for one in alice.tasks() if one.name == "once"] == ["once"]
    with doors.person("bob") as bob:
        assert bob._line.ask(task).id != alice._line.ask(task).id
    made = create("/pools", LivePoolRecord, NewPool(name="one", workers=0))
    assert alice._line.ask(made).name == alice._line.ask(made).name == "one"
    alice.pool("one").delete()


def whole_request(line: socket.socket) -> bytes:
    """With its body, however it was cut on the way; nothing at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < body_of(data):
        if not (more := line.recv(1 << 16)):
            return b""
        data += more
    return data


def body_of(head: bytes) -> int:
    """Bytes that follow a head."""
    found = re.search(rb"(?i)content-length: (\d+)", head)
    return int(found[1]) if found else 0


@contextmanager
def losing_answers(target: Path, place: Path) -> Iterator[tuple[Path, list[str]]]:
    """A socket that hands requests on and loses the first answer to each kind of POST."""
    path, asked = place / f"lossy-{uuid.uuid4().hex[:6]}", []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            with line, socket.socket(socket.AF_UNIX) as behind:
                behind.connect(str(target))
                while data := whole_request(line):
                    behind.sendall(data)
                    answer = behind.recv(1 << 16)
                    first = data.split(b"\r\n")[0].decode()
                    asked.append(first)
                    if first.startswith("POST") and asked.count(first) == 1:
                        break
                    line.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield path, asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def test_a_lost_answer_makes_nothing_twice(doors: OpenService, pool: str, place: Path) -> None:
    target = doors.home.read_address()
    assert target is not None
    with losing_answers(target, place) as (path, asked):
        connection = Connection(Line(path))
        task = connection.create_task("lost answer", pool, 1)
        task.command = "true"
        task.submit()
        connection.close()
        assert [line for line in asked if line.startswith("POST")] == ["POST /v1/tasks HTTP/1.1"] * 2
    assert [one.uuid for one in doors.owner().tasks() if one.name == "lost answer"] == [task.uuid]


def test_who_comes_too_often_waits_and_comes_again(place: Path) -> None:
    path = place / f"busy-{uuid.uuid4().hex[:6]}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    answers = [
        b"HTTP/1.1 429 Too Many\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    ]

    def serve() -> None:
        line, _ = listener.accept()
        with line:
            for answer in answers:
                line.recv(1 << 16)
                line.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    line = Line(path)
    assert line.ask(Ask("GET", "/tasks", dict[str, str])) == {}
    line.close()
    thread.join(10)
    listener.close()


# Events


def until(events: Iterator[HeardEvent], wanted: str, found: list[HeardEvent]) -> list[HeardEvent]:
    """Events up to the first that shows a task in this state."""
    for event in events:
        found.append(event)
        if isinstance(event.record, QueuedTaskRecord) and str(event.record.state) == wanted:
            return found
    raise AssertionError("they ended")


def test_what_happens_is_told_as_it_happens_and_again_from_any_place(
    doors: OpenService, alice: Connection, pool: str, tmp_path: Path
) -> None:
    task = alice.create_task("told", pool, 1)
    task.command = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo hello; echo world"
    task.submit()
    own, others = alice.events(task=task.uuid), doors.person("bob").events()
    heard: dict[str, list[HeardEvent]] = {"own": [], "others": []}
    listeners = [
        threading.Thread(target=until, args=(own, "Success", heard["own"]), daemon=True),
        threading.Thread(target=until, args=(others, "Success", heard["others"]), daemon=True),
    ]
    for listener in listeners:
        listener.start()
    wait_for(lambda: all(heard.values()))
    (tmp_path / "go").touch()
    for listener in listeners:
        listener.join(60)
    printed = b"".join(event.record.data for event in heard["own"] if isinstance(event.record, OutputRecord))
    assert printed == b"hello\nworld\n"
    assert {event.kind for event in heard["own"]} == {"task", "output"}
    again = until(alice.events(task=task.uuid, after=heard["own"][0].id), "Success", [])
    assert again == heard["own"][1:]
    assert next(alice.events(after="another-start-1")).kind == "reset"
    assert {event.kind for event in heard["others"]} <= {"service", "pool", "task"}
    assert {event.record.command for event in heard["others"] if isinstance(event.record, QueuedTaskRecord)} == {""}


def test_a_listener_that_does_not_read_is_told_to_start_over(doors: OpenService, pool: str, tmp_path: Path) -> None:
    path = doors.home.read_address()
    with doors.owner() as owner, socket.socket(socket.AF_UNIX) as line:
        task = owner.create_task("much", pool, 1)
        task.command = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; head -c 24000000 /dev/zero; echo end"
        task.submit()
        line.connect(str(path))
        line.sendall(f"GET /v1/events?task={task.uuid} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        heard = line.recv(1 << 16)
        assert heard.startswith(b"HTTP/1.1 200")
        (tmp_path / "go").touch()
        assert task.wait(timeout=120)
        line.settimeout(60)
        while b"event: reset" not in heard:
            data = line.recv(1 << 20)
            assert data, "it was not told"
            heard = heard[-100:] + data


def test_programs_with_a_loop_do_the_same(doors: OpenService, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("hello\n")

    async def program(service: str | Path, **how: Any) -> list[str]:
        kinds = []
        async with cenote.connect_async(service, **how) as conn, conn.create_pool("async", "local", 1) as pool:
            first = conn.create_task("first", pool, 1)
            first.command = "true"
            task = conn.create_task("task", pool, 2)
            task.resources, task.results, task.after = [str(tmp_path / "in")], ["out"], [first]
            task.command = "cat in; cp in out; sleep 0.2"

            async def listen() -> None:
                async for event in conn.events(pool=pool.id):
                    kinds.append(event.kind)  # noqa: PERF401  # some are there before it ends

            listening = asyncio.ensure_future(listen())
            assert await task.run(quiet=True, timeout=60)
            assert await task.stdout() == "hello\nhello\n"
            assert len(await task.download_results(tmp_path / uuid.uuid4().hex)) == 2
            assert [one.exit_code for one in await task.instances()] == [0, 0]
            assert (await (await conn.task(task.uuid)).record()).state == "Success"
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        plain = await cenote.connect_async(service, **how)
        with pytest.raises(CenoteError, match="there is no pool 'nothing'"):
            await plain.pool("nothing")
        await plain.close()
        return kinds

    assert "task" in asyncio.run(program(doors.home.path))
    assert "task" in asyncio.run(program(doors.url, token=doors.token("alice"), ca=doors.ca))
    with pytest.raises(CenoteError, match="pinned"):
        asyncio.run(program(doors.url, token="x", ca=f"sha256:{'0' * 64}"))


# The document


DOCUMENT = document_of(ROUTES)
OPENAPI_SHAPE = {
    "type": "object",
    "required": ["openapi", "info", "paths"],
    "properties": {
        "openapi": {"pattern": r"^3\.1\.\d+$"},
        "info": {"type": "object", "required": ["title", "version"]},
        "paths": {
            "propertyNames": {"pattern": "^/"},
            "additionalProperties": {
                "propertyNames": {"enum": ["get", "put", "post", "delete"]},
                "additionalProperties": {
                    "type": "object",
                    "required": ["summary", "parameters", "responses"],
                    "properties": {
                        "parameters": {
                            "items": {
                                "type": "object",
                                "required": ["name", "in", "schema"],
                                "properties": {
                                    "in": {"enum": ["path", "query", "header"]},
                                    "schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
                                },
                                "if": {"properties": {"in": {"const": "path"}}},
                                "then": {"required": ["required"]},
                            }
                        },
                        "requestBody": {"type": "object", "required": ["content"]},
                        "responses": {
                            "propertyNames": {"pattern": r"^[1-5]\d\d$"},
                            "additionalProperties": {"type": "object", "required": ["description", "content"]},
                        },
                    },
                },
            },
        },
        "components": {
            "properties": {
                "schemas": {"additionalProperties": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}
            }
        },
    },
}
"""What the meta-schema of OpenAPI 3.1 says of the parts that are used."""


def test_the_document_has_every_route_status_and_body() -> None:
    jsonschema.Draft202012Validator(OPENAPI_SHAPE).validate(DOCUMENT)
    text = json.dumps(DOCUMENT)
    references = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert references <= set(DOCUMENT["components"]["schemas"])
    for path, operations in DOCUMENT["paths"].items():
        blanks = set(re.findall(r"{(\w+)}", path))
        for operation in operations.values():
            assert {one["name"] for one in operation["parameters"] if one["in"] == "path"} == blanks
    described = sum(len(operations) for operations in DOCUMENT["paths"].values())
    assert described == sum(max(1, len(re.findall(r"\w+\|", route.path)) + ("|" in route.path)) for route in ROUTES)
    for route in ROUTES:
        path = "/v1" + re.sub(r"{\w+:(\w+)\|[^}]*}", r"\1", route.path)
        found = DOCUMENT["paths"][re.sub(r"{(\w+):[^}]*}", r"{\1}", path)][route.method.lower()]
        assert {str(route.status), "400", "401", "403", "404", "413", "429"} <= set(found["responses"])
        assert ("requestBody" in found) == (route.takes is not None or route.uploads)


def test_answers_are_what_the_document_says(doors: OpenService, pool: str) -> None:
    boss = doors.token("boss", admin=True)
    served = doors.ask("GET", "/v1/openapi.json", token=boss).json
    assert served == json.loads(json.dumps(DOCUMENT))
    new = msgspec.json.encode(NewTask(name="described", pool=pool, command="true"))
    task = doors.ask("POST", "/v1/tasks", token=boss, body=new).json["id"]
    asked = [
        ("GET", "/v1/service", "/v1/service", b""),
        ("GET", "/v1/caller", "/v1/caller", b""),
        ("GET", "/v1/pools", "/v1/pools", b""),
        ("GET", f"/v1/pools/{pool}", "/v1/pools/{name}", b""),
        ("GET", "/v1/pools/none", "/v1/pools/{name}", b""),
        ("POST", "/v1/pools", "/v1/pools", b'{"name": 1}'),
        ("POST", "/v1/tasks", "/v1/tasks", new),
        ("GET", "/v1/tasks", "/v1/tasks", b""),
        ("GET", f"/v1/tasks/{task}", "/v1/tasks/{id}", b""),
        ("GET", f"/v1/tasks/{task}/instances", "/v1/tasks/{id}/instances", b""),
        ("GET", f"/v1/tasks/{task}/results", "/v1/tasks/{id}/results", b""),
        ("POST", f"/v1/tasks/{task}/cancel", "/v1/tasks/{id}/cancel", b""),
        ("GET", "/v1/queue", "/v1/queue", b""),
        ("GET", "/v1/tokens", "/v1/tokens", b""),
        ("POST", "/v1/tokens", "/v1/tokens", b'{"user": "x"}'),
        ("DELETE", "/v1/tokens/none", "/v1/tokens/{id}", b""),
        ("POST", "/v1/page", "/v1/page", b""),
    ]
    for method, path, described, body in asked:
        found = doors.ask(method, path, token=boss, body=body or None)
        answers = DOCUMENT["paths"][described][method.lower()]["responses"]
        schema = answers[str(found.status)]["content"]["application/json"]["schema"]
        whole = {**schema, "components": DOCUMENT["components"]}
        jsonschema.Draft202012Validator(whole).validate(found.json)


# Lists


def test_the_latest_tasks_are_those_that_were_submitted_last(
    alice: Connection, pool: str, doors: OpenService, tmp_path: Path
) -> None:
    slow = alice.create_task("slow", pool, 1)
    slow.command = f"until [ -e {tmp_path / 'go'} ]; do sleep 0.05; done"
    slow.submit()
    for name in ("later", "last"):
        task = alice.create_task(name, pool, 1)
        task.command = "true"
        assert task.wait(timeout=60)
    found = doors.ask("GET", "/v1/tasks?most=3", token=doors.token("alice")).json
    (tmp_path / "go").touch()

    assert [one["name"] for one in found] == ["last", "later", "slow"]
    assert slow.wait(timeout=60)


@pytest.mark.parametrize(
    ("path", "known"), [("/v1/tasks?state=nope", "Submitted"), ("/v1/tasks/{}/instances?state=nope", "waiting")]
)
def test_a_state_that_there_is_not_is_answered_with_those_that_there_are(
    alice: Connection, pool: str, doors: OpenService, path: str, known: str
) -> None:
    task = alice.create_task("any", pool, 1)
    task.command = "true"
    assert task.wait(timeout=60)
    answer = doors.ask("GET", path.format(task.uuid), token=doors.token("alice"))

    assert answer.status == 400
    assert answer.json["message"].startswith("there is no state 'nope'; there are ")
    assert known in answer.json["message"]


def test_only_those_who_look_after_a_service_are_told_where_it_lives(alice: Connection, doors: OpenService) -> None:
    with doors.owner() as owner, doors.person("ada", admin=True) as admin:
        told = [(one.service.pid > 0, one.service.home, bool(one.service.python)) for one in (owner, admin, alice)]
        heard = next(iter(alice.events())).record

    home = str(doors.home.path)
    assert told == [(True, home, True), (True, home, True), (False, "", False)]
    assert (heard.pid, heard.home, heard.python) == (0, "", "")


def test_the_description_says_where_its_paths_begin(doors: OpenService) -> None:
    document = doors.ask("GET", "/v1/openapi.json", token=doors.token("alice")).json

    assert [one["url"] for one in document["servers"]] == ["/"]
    assert all(path.startswith("/v1/") for path in document["paths"])
