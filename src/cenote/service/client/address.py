"""Know where services are, what is shown to them and how they are recognised: those that this user signed in to."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from cenote.common import errors, storage
from cenote.common.values import dataclass

SCHEME = "https://"
_ANY_SCHEME = "://"
TOKEN_VARIABLE = "CENOTE_TOKEN"
"""The environment variable that may hold the token."""
SERVICE_VARIABLE = "CENOTE_SERVICE"
"""The one that may name the service, as `--service` does."""
_SECONDS = 20.0


def is_url(place: str) -> bool:
    """Whether an address of the network is meant, and no folder: also one that no service can have."""
    return _ANY_SCHEME in place


@dataclass(frozen=True)
class NetworkAddress:
    """A service that is reached over HTTPS."""

    url: str
    token: str = field(default="", repr=False)
    ca: Path | None = None
    """Certificates that are trusted; without them those of the system."""
    fingerprint: str = ""
    """SHA-256 of the only certificate that is trusted, in hexadecimal digits; instead of any authority."""

    @property
    def host(self) -> str:
        """Its name or address."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Its port."""
        return urlsplit(self.url).port or 443

    @property
    def headers(self) -> Mapping[str, str]:
        """What is shown to it."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def context(self) -> ssl.SSLContext:
        """For connections to it. With a fingerprint, `recognise` looks at its certificate instead."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except OSError as problem:
            raise errors.error(
                errors.BAD_CREDENTIAL, f"{self.ca} holds no certificates: {problem.strerror or problem}"
            ) from problem
        if self.fingerprint:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def recognise(self, certificate: bytes | None) -> None:
        """Raises SSLCertVerificationError where this is not the certificate that is expected."""
        if self.fingerprint and not hmac.compare_digest(fingerprint_of(certificate or b""), self.fingerprint):
            raise ssl.SSLCertVerificationError(
                f"its certificate is not the one that was pinned: {spelled(fingerprint_of(certificate or b''))}"
            )


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a service that the user signed in to."""

    token: str
    ca: str = ""
    fingerprint: str = ""


def address_of(url: str, *, token: str | None = None, ca: str | Path | None = None) -> NetworkAddress:
    """Of a service: what is not given is `$CENOTE_TOKEN`, or what `cenote login` kept."""
    plain = plain_url(url)
    kept = read_signed_in().get(plain, SignedIn(token=""))
    trusted = ca if ca is not None else (kept.fingerprint and f"sha256:{kept.fingerprint}") or kept.ca or None
    shown = token or os.environ.get(TOKEN_VARIABLE) or kept.token
    if isinstance(trusted, str) and trusted.startswith("sha256:"):
        return NetworkAddress(plain, shown, fingerprint=plain_fingerprint(trusted))
    return NetworkAddress(plain, shown, ca=None if trusted is None else storage.expanded(trusted))


def plain_url(url: str) -> str:
    """As services are known by. Raises where it is not an address of one."""
    parts = urlsplit(url)
    try:
        port = parts.port or 443
    except ValueError:
        port = 0
    if parts.scheme != "https" or not parts.hostname or not port or parts.path.strip("/") or parts.query:
        raise errors.error(
            errors.BAD_VALUE, f"{url} is not an address of a service", hint="it looks like https://HOST:PORT"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{SCHEME}{host}:{port}"


def plain_fingerprint(text: str) -> str:
    """Without what people write into it. Raises where it is none."""
    plain = text.removeprefix("sha256:").replace(":", "").replace(" ", "").lower()
    if len(plain) != 64 or set(plain) - set("0123456789abcdef"):
        raise errors.error(errors.BAD_VALUE, f"{text} is not the SHA-256 of a certificate (64 hexadecimal digits)")
    return plain


def spelled(fingerprint: str) -> str:
    """In pairs, to be compared by eye."""
    return ":".join(fingerprint[at : at + 2] for at in range(0, len(fingerprint), 2)).upper()


def fingerprint_of(certificate: bytes) -> str:
    """SHA-256 of a certificate."""
    return hashlib.sha256(certificate).hexdigest()


def shown_certificate(address: NetworkAddress) -> tuple[str, bool]:
    """The fingerprint of the certificate that is shown there now, and whether the system's authorities vouch for it.

    Nothing is sent.
    """
    for trusting in (False, True):
        context = address.context()
        if trusting:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with (
                socket.create_connection((address.host, address.port), timeout=_SECONDS) as plain,
                context.wrap_socket(plain, server_hostname=address.host) as line,
            ):
                return fingerprint_of(line.getpeercert(binary_form=True) or b""), not trusting
        except ssl.SSLCertVerificationError:
            continue
        except OSError as problem:
            words = problem.strerror or str(problem)
            raise errors.error(errors.NO_SERVICE, f"no service answers at {address.url}: {words}") from problem
    raise AssertionError("without verification nothing fails to verify")


def signed_in_file() -> Path:
    """Where tokens are kept."""
    return storage.expanded(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "cenote" / "services.json"


def read_signed_in() -> dict[str, SignedIn]:
    """Services that the user signed in to, by their addresses. Raises where others could read, or write, the file."""
    file = signed_in_file()
    try:
        facts, text = file.stat(), file.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise errors.error(errors.NO_ACCESS, f"{file}: {problem.strerror}") from problem
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
        raise errors.error(
            errors.BAD_CREDENTIAL, f"{file} holds tokens, and is not yours alone", hint=f"chmod 600 {file}"
        )
    try:
        return msgspec.json.decode(text, type=dict[str, SignedIn])
    except msgspec.MsgspecError as problem:
        raise errors.error(errors.BAD_CREDENTIAL, f"{file} is damaged: {problem}", hint="remove it") from problem


def keep_signed_in(url: str, kept: SignedIn | None) -> None:
    """Remember a token for this service; None forgets it."""
    known = {name: one for name, one in read_signed_in().items() if name != url}
    if kept is not None:
        known[url] = kept
    storage.write_private(signed_in_file(), msgspec.json.format(msgspec.json.encode(known)))
