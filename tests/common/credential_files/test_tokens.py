"""Test what is read from tokens, and what is found wrong with them."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from pathlib import Path

import jwt
import pytest

from builders.credentials import ANY_AUDIENCE, HOUR, TokenIssuer, write_token
from cenote.common.credential_files.places import CredentialFileError, TokenPlace
from cenote.common.credential_files.token import grants, read_token, token_faults

ISSUER = TokenIssuer("https://issuer.test")


def faults(token: str, *, audience: str | None = None, scopes: tuple[str, ...] = ()) -> list[str]:
    place = TokenPlace("BEARER_TOKEN", text=token)
    return [one.what for one in token_faults(place, time.time(), audience=audience, scopes=scopes)]


def test_a_token_says_whose_it_is_for_what_and_until_when() -> None:
    facts = read_token(ISSUER.token(audience=["https://a", "https://b"], scope="storage.read:/ compute.read"))
    assert (facts.subject, facts.issuer) == ("ada", "https://issuer.test")
    assert facts.audience == ("https://a", "https://b")
    assert facts.scope == ("storage.read:/", "compute.read")
    assert facts.ends == pytest.approx(time.time() + HOUR, abs=60)
    assert (facts.algorithm, facts.key_id) == ("ES256", ISSUER.key_id)


def test_a_good_token_has_no_fault() -> None:
    assert faults(ISSUER.token(), audience="https://storage.test", scopes=("storage.read:/store/mc",)) == []


def test_claims_of_other_types_than_they_should_have_are_left_out() -> None:
    odd = jwt.encode({"sub": "1", "aud": [1, "a"], "scp": ["x", "y"]}, "k" * 32, algorithm="HS256")
    facts = read_token(odd)
    assert (facts.issuer, facts.audience, facts.scope, facts.ends) == ("", ("a",), ("x", "y"), None)


@pytest.mark.parametrize("value", [True, "1800000000", [1], -1e300, 10**18, 10**400, float("nan"), float("inf")])
@pytest.mark.parametrize("claim", ["exp", "nbf"])
def test_a_claim_that_is_no_time_is_a_fault(claim: str, value: object) -> None:
    [found] = faults(_encoded({"sub": "ada", claim: value}))
    assert f"'{claim}'" in found


def _encoded(claims: dict[str, object]) -> str:
    """Unlike PyJWT, which looks at times when it writes them."""
    parts = [json.dumps(part).encode() for part in ({"alg": "ES256"}, claims)]
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in [*parts, b"signature"])


@pytest.mark.parametrize("text", ["", "a.b", "some words", "e30.e30", "!!!.###.$$$"])
def test_what_is_no_token_is_said_without_it(text: str) -> None:
    with pytest.raises(CredentialFileError) as raised:
        read_token(text)
    assert not text or text not in str(raised.value)


def test_an_ended_token_says_since_when_and_an_early_one_from_when_on() -> None:
    [late] = faults(ISSUER.token(starts=-HOUR, lifetime=-300))
    assert late.startswith("ended 5m")
    [early] = faults(ISSUER.token(starts=600))
    assert early.startswith("begins in")


def test_a_token_for_another_audience_names_both() -> None:
    [found] = faults(ISSUER.token(audience="https://a"), audience="https://b")
    assert "https://a" in found
    assert "https://b" in found
    assert faults(ISSUER.token(audience=ANY_AUDIENCE), audience="https://b") == []


def test_a_token_without_a_scope_names_it() -> None:
    [found] = faults(ISSUER.token(scope="storage.read:/user"), scopes=("storage.read:/store",))
    assert "storage.read:/store" in found
    assert "storage.read:/user" in found


def test_a_token_without_a_signature_is_refused() -> None:
    unsigned = jwt.encode({"sub": "ada"}, "", algorithm="none")
    assert faults(unsigned) == ["has no signature"]


def test_a_token_file_that_others_can_read_is_at_fault(tmp_path: Path) -> None:
    file = write_token(tmp_path / "token", ISSUER.token(), mode=0o644)
    [found] = token_faults(TokenPlace(path=file), time.time())
    assert "0644" in found.what


@pytest.mark.parametrize(
    ("scope", "wanted", "covered"),
    [
        ("storage.read:/", "storage.read:/cms/a.root", True),
        ("storage.read:/cms", "storage.read:/cms", True),
        ("storage.read:/cms", "storage.read:/cmsother", False),
        ("storage.read:/cms", "storage.read:/cms/../atlas", False),
        ("storage.read:/cms", "storage.read:/", False),
        ("storage.read", "storage.read:/cms", True),
        ("read:/cms", "storage.read:/cms", True),
        ("storage.modify:/", "storage.read:/", False),
        ("compute.read", "compute.read", True),
    ],
)
def test_scopes_cover_what_is_below_them(scope: str, wanted: str, covered: bool) -> None:
    assert grants([scope], wanted) is covered
