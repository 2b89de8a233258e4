"""Know who may use a service from afar: tokens and sessions of browsers, of which only hashes are kept.

A token is `cenote_ID_SECRET`, with 32 random bytes as its secret, so one round of SHA-256 is enough for its hash. Both
are in tables of their own in the service's SQLite.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from cenote.common import errors
from cenote.execution.runs.summary import iso_time
from cenote.service.client.records import NewToken, TokenRecord
from cenote.service.http.caller import Caller
from cenote.service.server.log import ServiceLog

SESSION_SECONDS = 12 * 3600
KEY_SECONDS = 300
"""For which the key of a link is valid."""
_PREFIX = "cenote"
_SECRET_BYTES = 32
_USED_EVERY = 60.0
"""Seconds between two notes that a token was used."""
_LONGEST_NAME = 128
_TABLES = (
    "create table if not exists tokens (id text primary key, body blob not null)",
    "create table if not exists sessions (id text primary key, body blob not null)",
)
_NO_HASH = hashlib.sha256(b"").hexdigest()
Row = TypeVar("Row")


class TokenKept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a token."""

    id: str
    hash: str
    user: str
    admin: bool = False
    groups: tuple[str, ...] = ()
    created: float
    expires: float | None = None
    used: float | None = None

    @property
    def record(self) -> TokenRecord:
        """As it may be shown."""
        return TokenRecord(
            id=self.id,
            user=self.user,
            admin=self.admin,
            groups=self.groups,
            created=iso_time(self.created),
            expires=None if self.expires is None else iso_time(self.expires),
            used=None if self.used is None else iso_time(self.used),
        )


class SessionKept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a browser's session: its id is a hash."""

    id: str
    token: str
    """Whose rights it has; empty for those of the service's owner."""
    expires: float


class Access:
    """All tokens and sessions of a service."""

    def __init__(self, log: ServiceLog, *, owner: str, clock: Callable[[], float] = time.time) -> None:
        self._log, self._owner, self._clock = log, owner, clock
        with log.change() as database:
            for table in _TABLES:
                database.execute(table)
        self._tokens = {one.id: one for one in self._read("tokens", TokenKept)}
        self._sessions = {one.id: one for one in self._read("sessions", SessionKept)}
        self._keys: dict[str, float] = {}
        """Hashes of keys of links → when they end."""

    def _read(self, table: str, kind: type[Row]) -> list[Row]:
        return [msgspec.json.decode(body, type=kind) for (body,) in self._log.ask(f"select body from {table}")]

    def _write(self, table: str, kept: TokenKept | SessionKept) -> None:
        with self._log.change() as database:
            database.execute(f"insert or replace into {table} values (?, ?)", (kept.id, msgspec.json.encode(kept)))

    # Tokens

    def create_token(self, asked: NewToken) -> tuple[str, TokenRecord]:
        """A token, and what may be shown of it later."""
        for name in (asked.user, *asked.groups):
            if not name.isprintable() or not name.strip() or len(name) > _LONGEST_NAME:
                raise errors.error(errors.BAD_VALUE, f"{name!r} cannot name a user or a group")
        if asked.seconds is not None and asked.seconds <= 0:
            raise errors.error(errors.BAD_VALUE, "a token that expires at once is of no use")
        secret, now = secrets.token_urlsafe(_SECRET_BYTES), self._clock()
        kept = TokenKept(
            id=secrets.token_hex(6),
            hash=_hash(secret),
            user=asked.user,
            admin=asked.admin,
            groups=asked.groups,
            created=now,
            expires=None if asked.seconds is None else now + asked.seconds,
        )
        self._write("tokens", kept)
        self._tokens[kept.id] = kept
        return f"{_PREFIX}_{kept.id}_{secret}", kept.record

    def tokens(self) -> list[TokenRecord]:
        """Those that are not revoked, the oldest first."""
        return [one.record for one in sorted(self._tokens.values(), key=lambda one: one.created)]

    def revoke_token(self, token: str) -> TokenRecord:
        """From now on it is worth nothing, and neither are sessions that began with it."""
        if (kept := self._tokens.get(token)) is None:
            raise errors.CenoteError(
                errors.unknown_name(
                    errors.UNKNOWN_TOKEN, f"there is no token '{token}'", token, self._tokens, what="tokens"
                )
            )
        with self._log.change() as database:
            database.execute("delete from tokens where id = ?", (token,))
        del self._tokens[token]
        for session in [one for one in self._sessions.values() if one.token == token]:
            self.end_session(session.id)
        return kept.record

    def caller_with_token(self, token: str) -> Caller | None:
        """Who shows this; None for what is wrong, expired or revoked: nobody can tell which."""
        kept = self._known_token(token)
        if kept is None:
            return None
        now = self._clock()
        if kept.used is None or now - kept.used >= _USED_EVERY:
            kept = self._tokens[kept.id] = msgspec.structs.replace(kept, used=now)
            self._write("tokens", kept)
        return _caller(kept)

    def _known_token(self, token: str) -> TokenKept | None:
        prefix, _, rest = token.partition("_")
        name, _, secret = rest.partition("_")
        kept = self._tokens.get(name)
        is_same = hmac.compare_digest(_hash(secret), _NO_HASH if kept is None else kept.hash)
        return kept if is_same and prefix == _PREFIX and kept is not None and self._is_valid(kept) else None

    def _is_valid(self, kept: TokenKept) -> bool:
        return kept.expires is None or self._clock() < kept.expires

    # Sessions of browsers

    def open_session(self, *, token: str = "", key: str = "") -> str | None:
        """What a browser shows from now on; None where neither the token nor the key is worth anything."""
        kept = self._known_token(token) if token else None
        if kept is None and not (key and self._take_key(key)):
            return None
        shown, now = secrets.token_urlsafe(_SECRET_BYTES), self._clock()
        session = SessionKept(id=_hash(shown), token=kept.id if kept else "", expires=now + SESSION_SECONDS)
        for ended in [one for one in self._sessions.values() if one.expires < now]:
            self.end_session(ended.id)
        self._write("sessions", session)
        self._sessions[session.id] = session
        return shown

    def caller_with_session(self, shown: str) -> Caller | None:
        """Who shows this."""
        session = self._sessions.get(_hash(shown))
        if session is None or session.expires < self._clock():
            return None
        if not session.token:
            return Caller(user=self._owner, admin=True, session=session.id)
        kept = self._tokens.get(session.token)
        if kept is None or not self._is_valid(kept):
            return None
        return msgspec.structs.replace(_caller(kept), session=session.id)

    def still_knows(self, caller: Caller) -> bool:
        """Whether somebody who was let in would be let in now: neither token nor session is over or revoked."""
        session, token = self._sessions.get(caller.session), self._tokens.get(caller.token)
        has_session = not caller.session or (session is not None and session.expires >= self._clock())
        return has_session and (not caller.token or (token is not None and self._is_valid(token)))

    def end_session(self, session: str) -> None:
        """By its hash; one that is over is not an error."""
        with self._log.change() as database:
            database.execute("delete from sessions where id = ?", (session,))
        self._sessions.pop(session, None)

    def make_key(self) -> str:
        """For a link that signs the owner in once."""
        now, key = self._clock(), secrets.token_urlsafe(_SECRET_BYTES)
        self._keys = {known: until for known, until in self._keys.items() if until > now}
        self._keys[_hash(key)] = now + KEY_SECONDS
        return key

    def _take_key(self, key: str) -> bool:
        return self._keys.pop(_hash(key), 0.0) > self._clock()


def _caller(kept: TokenKept) -> Caller:
    return Caller(user=kept.user, admin=kept.admin, groups=kept.groups, token=kept.id)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
