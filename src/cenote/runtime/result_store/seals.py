"""Seal what lies in a store, so that it is known who wrote it."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Protocol

from cenote.worker.results.bundle import ByteBuffer

if TYPE_CHECKING:  # it takes as long to import as a small run
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_SUM, _SIGNATURE = 32, 64
SEAL = _SUM + _SIGNATURE
"""Bytes at the end of an index."""
PUBLIC = 32
"""Bytes of a public key."""


class Voucher(Protocol):
    """Knows what one user wrote."""

    def vouches(self, told: ByteBuffer, end: bytes) -> bool:
        """Whether the end of an index is its owner's: `SEAL` bytes."""


class OwnSeal:
    """Of the user who runs this, by a key that nobody else can read."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(key, digest_size=32, person=b"cenote store").digest()

    def of(self, what: str, *parts: ByteBuffer) -> bytes:
        """The keyed sum, 32 bytes; of each kind of things another."""
        summed = hashlib.blake2b(key=self._key, digest_size=_SUM, person=what.encode())
        for part in parts:
            summed.update(part)
        return summed.digest()

    def end_of(self, told: ByteBuffer) -> bytes:
        """What an index ends with: its keyed sum, and a signature that others know it by, if there is one."""
        return self.of("index", told) + bytes(_SIGNATURE)  # in a store of one's own nobody else reads it

    def vouches(self, told: ByteBuffer, end: bytes) -> bool:
        return hmac.compare_digest(self.of("index", told), end[:_SUM])


class SigningSeal(OwnSeal):
    """The same where others read what one wrote."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self._private = _private_key(key)

    def end_of(self, told: ByteBuffer) -> bytes:
        return self.of("index", told) + self._private.sign(_signed(told))


class SealOfAnother:
    """Of somebody else, by their public key."""

    def __init__(self, public: bytes) -> None:
        self._public = public

    def vouches(self, told: ByteBuffer, end: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self._public).verify(end[_SUM:], _signed(told))
        except (InvalidSignature, ValueError):
            return False
        return True


def public_key(key: bytes) -> bytes:
    """What others know the signatures of this key by."""
    found: bytes = _private_key(key).public_key().public_bytes_raw()
    return found


def _private_key(key: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # only stores of several need it

    return Ed25519PrivateKey.from_private_bytes(hashlib.blake2b(key, digest_size=32, person=b"cenote signs").digest())


def _signed(told: ByteBuffer) -> bytes:
    return b"cenote store index 1\n" + hashlib.blake2b(told, digest_size=_SIGNATURE).digest()
