"""Verify the signature of a token with the keys that its issuer publishes over https."""

from __future__ import annotations

import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from dataclasses import field
from enum import Enum
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cenote.common.credential_files.trust import trusting
from cenote.common.values import dataclass

if TYPE_CHECKING:
    from jwt import PyJWK

_SECONDS = 5.0
_LONGEST = 1_000_000
_ASK_AGAIN = 60.0
"""Seconds after which an issuer that did not answer is asked again."""
_CONFIGURATIONS = (".well-known/openid-configuration", ".well-known/oauth-authorization-server")
"""Where issuers say where their keys are; the second is RFC 8414, which SciTokens may use."""
ALGORITHMS = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA")
"""Signatures with a key pair. `none` is no signature, and HS256 one that every holder of the key can make."""


class SignatureVerdict(Enum):
    """What became of a signature."""

    GOOD = "verified"
    FORGED = "forged"
    UNKNOWN = "not checked"


@dataclass(frozen=True)
class Signature:
    """Whether it is the issuer's, and why that is unknown."""

    verdict: SignatureVerdict
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.verdict.value}: {self.reason}" if self.reason else self.verdict.value


@dataclass(frozen=True)
class _Keys:
    asked: float
    by_id: dict[str, PyJWK] = field(default_factory=dict)
    problem: str = ""


_known: dict[tuple[str, str], _Keys] = {}
"""Issuer and folder of authorities → its keys, for as long as this process lives."""
_asking = threading.Lock()


def signature_of(token: str, issuer: str, key_id: str, authorities: Path | None) -> Signature:
    """Verify it; where the issuer cannot be reached, say so."""
    return _verified(token, key_id, _keys(issuer, key_id, authorities))


def known_signature(token: str, issuer: str, key_id: str, authorities: Path | None) -> Signature | None:
    """The same without asking the issuer; None where it was not asked yet."""
    keys = _known.get((issuer, str(authorities)))
    return None if keys is None else _verified(token, key_id, keys)


def _verified(token: str, key_id: str, keys: _Keys) -> Signature:
    import jwt

    if keys.problem:
        return Signature(SignatureVerdict.UNKNOWN, keys.problem)
    for key in [keys.by_id[key_id]] if key_id in keys.by_id else [] if key_id else keys.by_id.values():
        try:
            jwt.api_jws.decode(token, key=key.key, algorithms=list(ALGORITHMS))
        except (jwt.PyJWTError, TypeError, ValueError):  # also for a key of another kind than the token says
            continue
        return Signature(SignatureVerdict.GOOD)
    return Signature(SignatureVerdict.FORGED)


def _keys(issuer: str, key_id: str, authorities: Path | None) -> _Keys:
    """The keys of an issuer, asked for once, and again for one that it may have by now."""
    with _asking:
        place = (issuer, str(authorities))
        known = _known.get(place)
        if known is not None and known.problem:
            is_enough = time.monotonic() - known.asked < _ASK_AGAIN
        else:
            is_enough = known is not None and (not key_id or key_id in known.by_id)
        if known is None or not is_enough:
            known = _known[place] = _published(issuer, authorities)
        return known


def _published(issuer: str, authorities: Path | None) -> _Keys:
    import jwt

    try:
        secured = urllib.request.HTTPSHandler(context=trusting(authorities))
        opener = urllib.request.build_opener(secured, _SameHost())
        document = _get(opener, _key_address(opener, issuer))
        found: dict[str, PyJWK] = {}
        for number, written in enumerate(document.get("keys", ())):
            try:
                found[str(written.get("kid") or number)] = jwt.PyJWK(written)
            except (jwt.PyJWTError, AttributeError, TypeError, ValueError):  # of a kind that we do not know
                continue
    except (OSError, HTTPException, ValueError, AttributeError) as problem:
        return _Keys(time.monotonic(), problem=f"{issuer} gave no keys: {_in_words(problem)}")
    return _Keys(time.monotonic(), found, problem="" if found else f"{issuer} gave no keys: its list is empty")


def _key_address(opener: urllib.request.OpenerDirector, issuer: str) -> str:
    missing: urllib.error.HTTPError | None = None
    for configuration in _CONFIGURATIONS:
        try:
            address = _get(opener, f"{issuer.rstrip('/')}/{configuration}").get("jwks_uri")
        except urllib.error.HTTPError as problem:
            missing = problem
            continue
        if isinstance(address, str):
            return address
        raise ValueError("it names no address for them")
    raise missing or ValueError("it has no configuration")


def _get(opener: urllib.request.OpenerDirector, address: str) -> Any:  # Any: JSON of others
    if urlsplit(address).scheme != "https":
        raise ValueError("its address is not https")
    try:
        with opener.open(address, timeout=_SECONDS) as answer:
            return json.loads(answer.read(_LONGEST))
    except urllib.error.HTTPError as refusal:
        refusal.close()
        raise


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects over https to the same host only."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme != "https" or new.hostname != old.hostname:
            raise ValueError(f"it redirects to another host: {new.hostname}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _in_words(problem: BaseException) -> str:
    if isinstance(problem, urllib.error.HTTPError):
        return f"its server answered {problem.code}"
    if isinstance(problem, urllib.error.URLError) and isinstance(problem.reason, BaseException):
        return _in_words(problem.reason)
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted here ({problem.verify_message})"
    if isinstance(problem, TimeoutError):
        return f"no answer within {_SECONDS:.0f} s"
    if isinstance(problem, json.JSONDecodeError | UnicodeDecodeError):
        return "its answer is not JSON"
    return str(getattr(problem, "strerror", None) or problem)
