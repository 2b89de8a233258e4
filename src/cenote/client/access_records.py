"""Define who may use a service and what they sign in with: the bodies of requests and answers about it."""

from __future__ import annotations

import msgspec


class CallerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, as the service knows them."""

    user: str
    admin: bool = False
    """Whether they may change what belongs to others."""
    groups: tuple[str, ...] = ()
    """Groups that their tasks may name; an admin may name any."""
    names_files: bool = False
    """Whether `resources` may name files of the service's machine; everybody else uploads them."""


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without what makes it one."""

    id: str
    user: str
    admin: bool = False
    groups: tuple[str, ...] = ()
    created: str = ""
    expires: str | None = None
    used: str | None = None
    """When it was last shown, to the minute."""


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a token."""

    user: str
    admin: bool = False
    groups: tuple[str, ...] = ()
    seconds: int | None = None
    """Until it expires."""


class CreatedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was just made: nobody can read it a second time."""

    token: str
    record: TokenRecord


class SignIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a session of a browser: with a token, or with the key of a link."""

    token: str = ""
    key: str = ""


class PageLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link to the service's page that signs its owner in once."""

    url: str
    seconds: int
    """For which it is valid."""
    fingerprint: str
    """SHA-256 of the certificate that the page shows."""


class UploadedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file whose content was uploaded before."""

    name: str
    """That instances see, without folders."""
    digest: str
    """SHA-256 of its content, in hexadecimal digits."""
    executable: bool = False


class UploadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Content that the service has for a while."""

    digest: str
    size: int
    expires: str
    """When it is removed, unless it is used before."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """It was done."""

    done: bool = True


class StoppingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The service ends."""

    running: int
    """Instances that ran when it was asked to: the next service begins them again, unless it waits for them."""
