"""Read bearer tokens, SciTokens and those of WLCG: whose they are, for what, until when. Signatures are not checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import jwt

from cenote.common.credential_files.places import (
    LATEST,
    CredentialFileError,
    Fault,
    TokenPlace,
    file_faults,
    time_faults,
)
from cenote.common.text import listed
from cenote.common.values import dataclass

RENEWAL = "get a new one, with oidc-token, htgettoken or as your experiment says"
ANY_AUDIENCE = frozenset({"https://wlcg.cern.ch/jwt/v1/any", "ANY"})
"""Of tokens that are for every server: as WLCG writes it, and as SciTokens do."""

_MEANINGS = {"read": "storage.read", "write": "storage.modify"}
"""What SciTokens call the same in their own profile."""


@dataclass(frozen=True)
class TokenFacts:
    """What may be shown of a token: its claims, not its signature."""

    subject: str
    issuer: str
    audience: tuple[str, ...]
    scope: tuple[str, ...]
    begins: float | None
    ends: float | None
    """In seconds since the epoch."""
    algorithm: str
    key_id: str


def read_token(text: str) -> TokenFacts:
    """What a token claims. Raises `CredentialFileError` where it is none."""
    try:
        found = jwt.decode_complete(text, options={"verify_signature": False})
        header, claims = found["header"], found["payload"]
    except (jwt.PyJWTError, ValueError, RecursionError):  # their words may quote it
        raise CredentialFileError("holds no token, which would be three parts with dots between") from None
    return TokenFacts(
        subject=_text(claims, "sub"),
        issuer=_text(claims, "iss"),
        audience=_texts(claims, "aud"),
        scope=tuple(word for text in _texts(claims, "scope") or _texts(claims, "scp") for word in text.split()),
        begins=_time(claims, "nbf") or _time(claims, "iat"),
        ends=_time(claims, "exp"),
        algorithm=_text(header, "alg"),
        key_id=_text(header, "kid"),
    )


def token_faults(
    place: TokenPlace, now: float, *, audience: str | None = None, scopes: Iterable[str] = ()
) -> list[Fault]:
    """Everything that is wrong with a token for this audience and these scopes, short of its signature."""
    faults = file_faults(place.path) if place.path is not None else []
    try:
        facts = read_token(place.read())
    except CredentialFileError as problem:
        return [*faults, Fault(str(problem), RENEWAL)]
    if facts.algorithm.lower() in ("", "none"):
        faults.append(Fault("has no signature", RENEWAL))
    faults += time_faults(facts.begins, facts.ends, now, renewal=RENEWAL)
    if audience is not None and not ({audience} | ANY_AUDIENCE) & {*facts.audience} and facts.audience:
        faults.append(Fault(f"is for the audience {listed(facts.audience)}, not {audience}", RENEWAL))
    faults += [
        Fault(f"lacks the scope {scope}: it has {listed(facts.scope) if facts.scope else 'none'}", RENEWAL)
        for scope in scopes
        if not grants(facts.scope, scope)
    ]
    return faults


def grants(scopes: Sequence[str], wanted: str) -> bool:
    """Whether one of the scopes covers another: those with a path are good for everything below it."""
    return any(_covers(scope, wanted) for scope in scopes)


def _covers(scope: str, wanted: str) -> bool:
    (action, _, path), (needed, _, below) = scope.partition(":"), wanted.partition(":")
    if _MEANINGS.get(action, action) != _MEANINGS.get(needed, needed):
        return False
    granted, asked = ([part for part in one.split("/") if part] for one in (path, below))
    return ".." not in asked and asked[: len(granted)] == granted


def _text(claims: Mapping[str, object], name: str) -> str:
    value = claims.get(name)
    return value if isinstance(value, str) else ""


def _texts(claims: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = claims.get(name)
    values = value if isinstance(value, list) else [value]
    return tuple(one for one in values if isinstance(one, str))


def _time(claims: Mapping[str, object], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LATEST:
        return float(value)
    raise CredentialFileError(f"has a claim '{name}' that is not a time in seconds since 1970")
