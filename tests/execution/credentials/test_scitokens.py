"""Test what is found out about tokens before anything is submitted: signatures by an issuer that really answers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jwt
import pytest

from builders.credentials import HOUR, GridAuthority, TokenIssuer, write_token
from builders.https_issuer import CONFIGURATION, ServedIssuer, served_issuer
from cenote.common.errors import BAD_CREDENTIAL, NO_CREDENTIAL, Problem
from cenote.execution.credentials.interface import FILE
from cenote.execution.credentials.scitokens import BearerToken
from cenote.execution.credentials.support import issuer as keys

UNREACHABLE = TokenIssuer("https://127.0.0.1:1")
"""Nothing listens there."""


def problems(token: BearerToken) -> list[Problem]:
    return list(token.check(time.time()))


@pytest.fixture
def issuer(authority: GridAuthority, tmp_path: Path) -> Iterator[ServedIssuer]:
    with served_issuer(authority, tmp_path) as served:
        yield served


@pytest.fixture(autouse=True)
def _ask_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_known", {})


def test_a_token_in_a_variable_is_found_checked_and_described(
    issuer: ServedIssuer, environ: pytest.MonkeyPatch
) -> None:
    secret = issuer.token(audience="https://eos.example.org", scope="storage.read:/ storage.create:/user")
    environ.setenv("BEARER_TOKEN", secret)
    token = BearerToken(audience="https://eos.example.org", scope="storage.read:/cms storage.create:/user/ada")
    assert problems(token) == []
    facts = token.facts()
    assert facts is not None
    assert (facts.found, facts.subject, facts.issuer) == ("BEARER_TOKEN", "ada", issuer.url)
    assert facts.details["audience"] == "https://eos.example.org"
    assert facts.details["scope"] == "storage.read:/ storage.create:/user"
    assert facts.details["signature"] == "verified"
    assert token.read() == secret.encode()
    assert token.variables() == {"BEARER_TOKEN_FILE": FILE, "BEARER_TOKEN": None}
    assert secret not in f"{token!r} {facts!r}"


def test_a_token_is_found_by_path_by_variable_and_in_the_usual_file(
    environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = UNREACHABLE.token()
    file = write_token(tmp_path / "token", secret)
    (tmp_path / "runtime").mkdir()
    usual = write_token(tmp_path / "runtime" / f"bt_u{os.geteuid()}", secret)
    environ.setenv("MY_FILE", str(file))
    environ.setenv("MY_TOKEN", secret)
    settings = [{"path": str(file)}, {"variable": "MY_FILE"}, {"variable": "MY_TOKEN"}, {}]
    found = []
    for token in (BearerToken(**one) for one in settings):
        facts = token.facts()
        assert facts is not None
        found.append(facts.found)
        assert token.read() == secret.encode()
        assert problems(token) == []
    assert found == [str(file), str(file), "MY_TOKEN", str(usual)]


def test_one_that_is_missing_names_every_place(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (missing,) = problems(BearerToken())
    assert missing.kind is NO_CREDENTIAL
    places = ("BEARER_TOKEN", "BEARER_TOKEN_FILE", f"bt_u{os.geteuid()}")
    assert [place for place in places if place not in missing.message] == []
    environ.setenv("BEARER_TOKEN_FILE", str(tmp_path / "gone"))
    (gone,) = problems(BearerToken())
    assert (gone.kind, str(tmp_path / "gone") in gone.message) == (NO_CREDENTIAL, True)
    assert BearerToken(variable="NOT_SET").facts() is None
    with pytest.raises(FileNotFoundError):
        BearerToken(variable="NOT_SET").read()


def test_a_forged_token_is_a_problem_and_one_of_an_unreachable_issuer_is_not(
    issuer: ServedIssuer, tmp_path: Path
) -> None:
    forged = BearerToken(path=str(write_token(tmp_path / "forged", issuer.token(signed_by=UNREACHABLE))))
    (problem,) = problems(forged)
    assert "forged" in problem.message
    unknown = BearerToken(path=str(write_token(tmp_path / "unknown", UNREACHABLE.token())))
    assert problems(unknown) == []
    facts = unknown.facts()
    assert facts is not None
    assert facts.details["signature"].startswith("not checked: ")


def test_the_issuer_is_asked_once_and_again_for_a_key_that_it_may_have_by_now(
    issuer: ServedIssuer, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    token = BearerToken(path=str(write_token(file, issuer.token())))
    assert problems(token) + problems(token) == []
    assert issuer.asked == [CONFIGURATION, "/jwks"]
    newer = TokenIssuer(issuer.url)
    write_token(file, newer.token())
    assert "forged" in problems(token)[0].message
    issuer.answers["/jwks"] = newer.key_set()
    assert problems(token) == []


def test_an_issuer_that_did_not_answer_is_left_alone_for_a_while(
    issuer: ServedIssuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, issuer.answers = issuer.answers, {}
    token = BearerToken(path=str(write_token(tmp_path / "token", issuer.token(signed_by=UNREACHABLE))))
    assert problems(token) == []
    issuer.answers = answers
    assert problems(token) == []
    monkeypatch.setattr(keys, "_ASK_AGAIN", 0.0)
    assert "forged" in problems(token)[0].message


@pytest.mark.parametrize(
    "address", ["https://127.0.0.1:1/jwks", "http://localhost/jwks"], ids=["another host", "without TLS"]
)
def test_no_redirect_leads_to_another_host_or_out_of_tls(issuer: ServedIssuer, tmp_path: Path, address: str) -> None:
    issuer.answers["/jwks"] = address
    token = BearerToken(path=str(write_token(tmp_path / "token", issuer.token())))
    assert problems(token) == []
    facts = token.facts()
    assert facts is not None
    assert "redirects" in facts.details["signature"]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({}, "404"),
        ({CONFIGURATION: {"issuer": "x"}}, "no address"),
        ({CONFIGURATION: {"jwks_uri": "http://localhost/jwks"}}, "https"),
        ({CONFIGURATION: ["jwks"]}, "no keys"),
    ],
)
def test_an_issuer_that_answers_nonsense_is_not_believed(
    issuer: ServedIssuer, tmp_path: Path, answers: dict[str, object], words: str
) -> None:
    issuer.answers = answers
    token = BearerToken(path=str(write_token(tmp_path / "token", issuer.token())))
    assert problems(token) == []
    facts = token.facts()
    assert facts is not None
    assert words in facts.details["signature"]


def test_an_issuer_with_a_certificate_of_a_strange_authority_is_not_believed(
    issuer: ServedIssuer, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environ.setenv("X509_CERT_DIR", str(GridAuthority(tmp_path / "other", "Other CA").directory))
    token = BearerToken(path=str(write_token(tmp_path / "token", issuer.token())))
    assert problems(token) == []
    facts = token.facts()
    assert facts is not None
    assert "not trusted" in facts.details["signature"]


def unsigned() -> str:
    return jwt.encode({"iss": UNREACHABLE.url, "exp": time.time() + HOUR}, None, algorithm="none")


def with_a_shared_key() -> str:
    return jwt.encode({"iss": UNREACHABLE.url, "exp": time.time() + HOUR}, "k" * 32, algorithm="HS256")


def without_an_issuer() -> str:
    return jwt.encode({"exp": time.time() + HOUR}, UNREACHABLE.key, algorithm="ES256")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: UNREACHABLE.token(lifetime=-300), "ended 5m"),
        (lambda: UNREACHABLE.token(starts=HOUR), "begins in"),
        (lambda: UNREACHABLE.token(audience="https://other.example.org"), "https://other.example.org"),
        (lambda: UNREACHABLE.token(scope="storage.read:/atlas"), "storage.read:/cms"),
        (lambda: "not a token", "holds no token"),
        (unsigned, "no signature"),
        (with_a_shared_key, "HS256"),
        (without_an_issuer, "no issuer"),
    ],
)
def test_each_thing_that_is_wrong_has_its_own_words(tmp_path: Path, make: Callable[[], str], words: str) -> None:
    secret = make()
    file = write_token(tmp_path / "token", secret)
    found = problems(BearerToken(path=str(file), audience="https://eos.example.org", scope="storage.read:/cms"))
    assert {one.kind for one in found} == {BAD_CREDENTIAL}
    assert any(words in one.message and str(file) in one.message for one in found), [str(one) for one in found]
    signature = secret.rpartition(".")[2]
    assert not signature or signature == secret or not any(signature in str(one) for one in found)


def test_a_file_that_others_can_read_is_a_problem(tmp_path: Path) -> None:
    file = write_token(tmp_path / "token", UNREACHABLE.token(), mode=0o644)
    (problem,) = problems(BearerToken(path=str(file)))
    assert ("0644" in problem.message, problem.hint) == (True, f"chmod 600 {file}")


@pytest.mark.parametrize("where", ["path", "BEARER_TOKEN_FILE"])
def test_a_token_in_the_place_of_its_file_is_not_shown(environ: pytest.MonkeyPatch, where: str) -> None:
    secret = UNREACHABLE.token()
    environ.setenv("BEARER_TOKEN_FILE", secret)
    token = BearerToken(path=secret) if where == "path" else BearerToken()
    (problem,) = problems(token)
    assert where in problem.message
    assert secret not in str(problem)
    assert token.facts() is None
    with pytest.raises(OSError, match="cannot be read") as raised:
        token.read()
    assert secret not in str(raised.value)


def test_a_variable_that_holds_a_token_can_be_unset_and_the_token_stays_known(environ: pytest.MonkeyPatch) -> None:
    secret = UNREACHABLE.token()
    environ.setenv("HELD_TOKEN", secret)
    token = BearerToken(variable="HELD_TOKEN")
    assert token.variables()["HELD_TOKEN"] is None
    environ.delenv("HELD_TOKEN")
    assert token.read() == secret.encode()
