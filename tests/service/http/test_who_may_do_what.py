"""Whom a service answers: strangers get nothing, users what is theirs, instances of tasks what their user may."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from builders.strangers import can_be_opened_by_another_user
from cenote.common.errors import CenoteError
from cenote.service.client.connection import connect
from cenote.service.http.answers import ROUTES

from .conftest import OpenService, wait_for

_NOBODY = 65534
_BLANK = re.compile(r"{(\w+)(?::([^}]*))?}")
_WORDS = {"id": "0" * 32, "name": "pool", "digest": "0" * 64}


def spelled(path: str) -> str:
    """A path with something in its blanks."""
    return "/v1" + _BLANK.sub(lambda found: _WORDS[found[1]] if found[1] in _WORDS else found[2].split("|")[0], path)


def readable(file: Path) -> bytes:
    """What a file of a process says; nothing once it is gone."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


ALL = [(route.method, spelled(route.path)) for route in ROUTES]


def test_a_stranger_gets_the_same_answer_everywhere_whatever_is_tried(doors: OpenService) -> None:
    expired = doors.token("late", seconds=1)
    revoked = doors.token("gone")
    doors.owner().revoke_token(doors.id_of(revoked))
    good = doors.token("alice")
    wait_for(lambda: doors.ask("GET", "/v1/caller", token=expired).status == 401)
    refused = doors.ask("GET", "/v1/nothing")
    assert refused.status == 401
    for method, path in ALL:
        if path != "/v1/session" or method != "POST":
            assert doors.ask(method, path).content == refused.content, (method, path)
    wrong = [expired, revoked, f"{good[:-1]}!", "nonsense", "cenote__", good.replace("cenote", "other"), "ü"]
    for token in wrong:
        found = doors.ask("GET", "/v1/service", token=token.encode().decode("latin-1"))
        assert (found.status, found.content) == (401, refused.content), token
    assert doors.ask("POST", "/v1/session", body=b'{"token": "x"}').content == refused.content
    assert doors.ask("GET", "/v1/service", token=good).status == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_of_the_machine_gets_nothing_over_the_socket(doors: OpenService) -> None:
    socket = doors.home.read_address()
    assert socket is not None
    assert not can_be_opened_by_another_user(doors.home.path)
    program = """
import http.client, json, os, socket, sys
os.setgroups([])
os.setgid(int(sys.argv[3]))
os.setuid(int(sys.argv[3]))
for method, path in json.loads(sys.argv[2]):
    line = http.client.HTTPConnection("service")
    line.sock = socket.socket(socket.AF_UNIX)
    line.sock.connect(sys.argv[1])
    line.request(method, path)
    print(line.getresponse().status)
"""
    doors.home.path.chmod(0o711)  # as if somebody had opened the folder by mistake
    socket.chmod(0o666)
    try:
        told = subprocess.run(
            [sys.executable, "-I", "-S", "-c", program, str(socket), json.dumps(ALL), str(_NOBODY)],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        socket.chmod(0o600)
        doors.home.path.chmod(0o700)
    assert told.stdout.split() == ["403"] * len(ALL), told.stderr


def test_users_change_and_read_what_is_theirs_and_see_that_there_is_more(doors: OpenService) -> None:
    alice, bob, root = doors.person("alice", groups=["hep"]), doors.person("bob"), doors.person("chief", admin=True)
    pool = alice.create_pool("hers", "local", 1).submit()
    hers = alice.create_task("hers", pool, 1)
    hers.command = "echo secret; sleep 600"
    hers.submit()
    wait_for(lambda: hers.stdout() == "secret\n")
    assert (hers.record.user, hers.record.group) == ("alice", "hep")
    seen = bob.task(hers.uuid)
    assert (seen.record.name, seen.record.user, seen.record.command) == ("hers", "alice", "")
    assert [one.record.command for one in bob.tasks() if one.uuid == hers.uuid] == [""]
    for forbidden in (
        seen.stdout,
        seen.cancel,
        lambda: seen.instances,
        lambda: seen.download_results("x"),
        lambda: seen.change("priority", priority=9),
        bob.pool("hers").close,
        bob.pool("hers").delete,
        bob.tokens,
        lambda: bob.create_token("bob", admin=True),
        bob.page_link,
    ):
        with pytest.raises(CenoteError, match="may not do") as problem:
            forbidden()
        assert problem.value.problems[0].kind.name == "not-allowed"
    his = bob.create_task("his", "hers", 1)
    his.command, his.group = "true", "hep"
    with pytest.raises(CenoteError, match="not in group 'hep'"):
        his.submit()
    assert root.task(hers.uuid).stdout() == "secret\n"
    root.task(hers.uuid).cancel()
    assert not hers.wait(timeout=60)
    alice.pool("hers").delete()


def test_an_instance_at_the_owners_socket_has_the_rights_of_its_user_only(doors: OpenService, tmp_path: Path) -> None:
    owner, alice = doors.owner(), doors.person("alice")
    with owner.create_pool("shared", "local", 2) as pool:
        pool.wait(timeout=60)
        agents = [
            file.parent
            for file in Path("/proc").glob("[0-9]*/cmdline")
            if b"agent.main" in (words := readable(file)) and str(doors.home.path).encode() in words
        ]
        assert len(agents) >= 2
        assert not [agent for agent in agents if b"CENOTE_TOKEN" in readable(agent / "environ")]
        private = owner.create_task("private", pool, 1)
        private.command = "echo of the owner"
        assert private.wait(timeout=60)
        look = (
            f"import os, cenote; c = cenote.connect({str(doors.home.path)!r}); who = c.caller;"
            "print(who.user, who.admin, who.names_files, 'CENOTE_TOKEN' in os.environ);"
            f"print(c.task({private.uuid!r}).stdout())"
        )
        (tmp_path / "look.py").write_text(look)
        task = alice.create_task("look", "shared", 1)
        task.resources = [str(tmp_path / "look.py")]
        task.command = f"{sys.executable} look.py; env -i {sys.executable} look.py"
        assert not task.wait(timeout=120)
        assert task.stdout().splitlines() == ["alice False False False"] * 2
        assert task.stderr().count("user 'alice' may not do that with a task of user") == 2
        same = owner.create_task("own", pool, 1)
        same.command = f"{sys.executable} {tmp_path / 'look.py'}"
        assert same.wait(timeout=120)
        assert same.stdout().split()[1:] == ["False", "False", "False", "of", "the", "owner"]
        stray = alice.create_task("stray", "shared", 1)
        stray.resources = task.resources
        stray.command = (
            f"(setsid env -i {sys.executable} look.py > told 2>&1 &);"
            " while ! grep -q access told; do sleep 0.1; done; cat told"
        )
        stray.timeout = 60
        assert stray.wait(timeout=120)
        assert "has no access" in stray.stdout()
        assert "False" not in stray.stdout()


def test_only_the_owner_at_the_socket_names_files_of_the_services_machine(doors: OpenService) -> None:
    boss = doors.token("boss", admin=True)
    for path, body in (
        ("/v1/tasks", b'{"name": "t", "pool": "p", "command": "cat passwd", "resources": ["/etc/passwd"]}'),
        ("/v1/pools", b'{"name": "p", "resources": ["/etc/passwd"]}'),
    ):
        found = doors.ask("POST", path, token=boss, body=body)
        assert (found.status, "by its owner only" in found.json["message"]) == (403, True)


def test_a_browser_signs_in_with_a_token_or_a_link_and_out_again(doors: OpenService) -> None:
    found = doors.ask("POST", "/v1/session", body=b'{"token": "%s"}' % doors.token("web").encode())
    assert (found.status, found.json["user"]) == (201, "web")
    cookie, *flags = found.headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "Secure", "SameSite=Strict", "Path=/"} <= set(flags)
    assert doors.ask("GET", "/v1/caller", Cookie=cookie).json["user"] == "web"
    stop = doors.ask("POST", "/v1/pools", Cookie=cookie, body=b'{"name": "p"}')
    assert (stop.status, stop.json["message"]) == (403, "this request comes from another page")
    assert doors.ask("DELETE", "/v1/session", Cookie=cookie, Origin="https://evil.example").status == 403
    assert doors.ask("DELETE", "/v1/session", Cookie=cookie, Origin=doors.url).status == 200
    assert doors.ask("GET", "/v1/caller", Cookie=cookie).status == 401
    link = doors.owner().page_link()
    key = link.url.partition("#key=")[2].encode()
    assert link.url.startswith(doors.url)
    first = doors.ask("POST", "/v1/session", body=b'{"key": "%s"}' % key)
    assert (first.status, first.json["admin"], first.json["names_files"]) == (201, True, False)
    assert doors.ask("POST", "/v1/session", body=b'{"key": "%s"}' % key).status == 401


def test_a_revoked_token_ends_its_sessions(doors: OpenService) -> None:
    token = doors.token("short")
    cookie = (
        doors.ask("POST", "/v1/session", body=b'{"token": "%s"}' % token.encode()).headers["Set-Cookie"].split(";")[0]
    )
    assert doors.ask("GET", "/v1/caller", Cookie=cookie).status == 200
    doors.owner().revoke_token(doors.id_of(token))
    assert doors.ask("GET", "/v1/caller", Cookie=cookie).status == 401


def test_tokens_are_kept_as_hashes_only_and_their_use_is_noted(doors: OpenService) -> None:
    token = doors.token("careful")
    assert doors.ask("GET", "/v1/caller", token=token).status == 200
    (kept,) = (one for one in doors.owner().tokens() if one.id == doors.id_of(token))
    assert kept.used is not None
    secret = token.split("_", 2)[2].encode()
    for file in doors.home.path.rglob("*"):
        if file.is_file():
            assert secret not in file.read_bytes(), file


def test_the_certificate_that_is_pinned_is_the_only_one_that_is_trusted(doors: OpenService) -> None:
    token = doors.token("alice")
    with pytest.raises(CenoteError, match="cannot be trusted"):
        _ = connect(doors.url, token=token).service
    with pytest.raises(CenoteError, match="not the one that was pinned"):
        _ = connect(doors.url, token=token, ca=f"sha256:{'0' * 64}").service
    assert connect(doors.url, token=token, ca=doors.home.path / "door" / "certificate.pem").caller.user == "alice"


def test_without_rules_users_make_pools_on_the_machine_of_the_service_only(doors: OpenService) -> None:
    with doors.person("alice") as alice:
        alice.create_pool("hers", "local", 0).submit().delete()
        with pytest.raises(CenoteError, match="strategy 'slurm' can be made by admins only"):
            alice.create_pool("hers", "slurm", 1).submit()
