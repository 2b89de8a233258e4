"""Bearer tokens: SciTokens, and those of the WLCG profile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import ClassVar

from pydantic import Field

from cenote.common.credential_files.places import (
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
    CredentialFileError,
    TokenPlace,
    find_token,
    usual_token_file,
)
from cenote.common.credential_files.token import RENEWAL, TokenFacts, read_token, token_faults
from cenote.common.errors import BAD_CREDENTIAL, NO_CREDENTIAL, CenoteError, Problem
from cenote.common.text import listed
from cenote.execution.credentials.interface import FILE, CredentialFacts
from cenote.execution.credentials.support.found_credential import (
    VARIABLE,
    FoundCredential,
    expanded,
    is_there,
    problems_of,
)
from cenote.execution.credentials.support.issuer import ALGORITHMS, SignatureVerdict, known_signature, signature_of

_unset: dict[str, str] = {}
"""Variable → the token that it held before this process unset it, for as long as the process lives."""


class BearerToken(FoundCredential):
    """Sends your bearer token to workers: a SciToken, or one of the WLCG profile.

    It is in `BEARER_TOKEN`, or in the file that `BEARER_TOKEN_FILE` names, or in `bt_u<uid>` of `XDG_RUNTIME_DIR` or
    `/tmp`: the first of these counts. Its signature is checked with the keys of its issuer where that can be reached by
    https.
    """

    example: ClassVar[str] = """
    execution:
      credentials:
        - type: scitokens
          audience: https://eos.example.org
          scope: storage.read:/cms
          minimum_lifetime: 20m
          renew: htgettoken --audience https://eos.example.org
    """

    variable: str | None = Field(default=None, pattern=VARIABLE)
    """The environment variable that holds the token, or names its file, instead of the usual ones."""
    audience: str | None = None
    """The server that it must be for; tokens for any server are for this one too."""
    scope: str | None = None
    """Rights that it must grant, with spaces between: `storage.read:/cms`. A right to a folder covers what is below."""

    def _problems(self, now: float) -> Iterator[Problem]:
        place = self._find()
        if place is not None and place.holds_token_as_path:
            hint = f"set {TOKEN_VARIABLE} instead" if place.variable else "write the token into a file with mode 0600"
            holder = place.variable or "`path`"
            yield Problem(BAD_CREDENTIAL, f"{holder} holds a token instead of the name of its file", hint=hint)
            return
        if place is None or (place.path is not None and not is_there(place.path)):
            yield self._missing(place)
            return
        what = f"the token {place}"
        scopes = (self.scope or "").split()
        yield from problems_of(what, token_faults(place, now, audience=self.audience, scopes=scopes))
        facts = _read(place)
        if facts is None:
            return
        yield from self.too_short(what, facts.ends, now, renewal=RENEWAL)
        yield from self._signature_problems(what, place, facts)

    def _signature_problems(self, what: str, place: TokenPlace, facts: TokenFacts) -> Iterator[Problem]:
        if not facts.issuer:
            yield Problem(BAD_CREDENTIAL, f"{what} names no issuer", hint=RENEWAL)
        elif facts.algorithm in ALGORITHMS:
            signature = signature_of(place.read(), facts.issuer, facts.key_id, self.authorities)
            if signature.verdict is SignatureVerdict.FORGED:
                yield Problem(BAD_CREDENTIAL, f"{what} is forged: {facts.issuer} did not sign it", hint=RENEWAL)
        elif facts.algorithm.lower() not in ("", "none"):
            words = f"{what} is signed with {facts.algorithm}, which nothing but its issuer could verify"
            yield Problem(BAD_CREDENTIAL, words, hint=RENEWAL)

    def facts(self) -> CredentialFacts | None:
        """Whose it is, until when, for which servers and rights; and what is known of its signature."""
        try:
            place, folder = self._find(), self.authorities
        except CenoteError:
            return None
        found = None if place is None else _read(place)
        if place is None or found is None:
            return None
        signature = known_signature(place.read(), found.issuer, found.key_id, folder)
        details = {
            "audience": listed(found.audience),
            "scope": " ".join(found.scope),
            "signature": str(signature) if signature is not None else "",
            "authorities": str(folder or ""),
        }
        return CredentialFacts(
            found=place.variable if place.path is None else str(place.path),
            subject=found.subject,
            issuer=found.issuer,
            begins=found.begins,
            ends=found.ends,
            details={name: value for name, value in details.items() if value},
        )

    def read(self) -> bytes:
        """The token alone."""
        place = self._find()
        if place is None:
            raise FileNotFoundError("there is no token")
        try:
            return place.read().encode()
        except CredentialFileError as problem:
            raise OSError(f"the token {place} {problem}") from None

    def variables(self) -> Mapping[str, str | None]:
        """The file's. Those that hold tokens are unset: they would come first, and batch systems write them down."""
        place = None if self.variable is None else self._find()
        holding = {place.variable: None} if place is not None and place.path is None else {}
        return {TOKEN_FILE_VARIABLE: FILE, TOKEN_VARIABLE: None, **holding, **self.trust_variables()}

    def _find(self) -> TokenPlace | None:
        if self.path is not None:
            return TokenPlace(path=expanded(self.path))
        if self.variable is None:
            found = find_token(os.environ)
            return found if found is None or found.path is None else TokenPlace(found.variable, found.path.absolute())
        value = os.environ.get(self.variable, "").strip() or _unset.get(self.variable, "")
        if not value:
            return None
        if value.startswith(("/", ".", "~")):
            return TokenPlace(self.variable, expanded(value))
        _unset[self.variable] = value
        return TokenPlace(self.variable, text=value)

    def _missing(self, place: TokenPlace | None) -> Problem:
        if place is not None:
            named = f", which {place.variable} names" if place.variable else ""
            return Problem(NO_CREDENTIAL, f"there is no token: no file {place.path}{named}", hint=RENEWAL)
        if self.variable is not None:
            return Problem(NO_CREDENTIAL, f"there is no token: {self.variable} is not set", hint=RENEWAL)
        words = f"neither {TOKEN_VARIABLE} nor {TOKEN_FILE_VARIABLE} is set, no file {usual_token_file(os.environ)}"
        return Problem(NO_CREDENTIAL, f"there is no token: {words}", hint=RENEWAL)


def _read(place: TokenPlace) -> TokenFacts | None:
    try:
        return read_token(place.read())
    except CredentialFileError:
        return None
