"""Make the certificates of a run: an authority of its own signs one for the driver and one for the workers.

The key of the authority is forgotten as soon as it has signed both, so nothing else ever belongs to the run.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cenote.common.certificates.identity import Identity
from cenote.common.values import dataclass

_BEFORE, _AFTER = timedelta(days=1), timedelta(days=400)
"""How long certificates are valid around now: the clocks of nodes differ, and no run lasts longer."""
LONGEST_NAME = 64
"""Characters of a common name, by RFC 5280."""


@dataclass(frozen=True)
class RunIdentities:
    """Who the two sides of a run are."""

    driver: Identity
    """Stays in the memory of the driver."""
    workers: Identity
    """Reaches workers as a private file."""


def identities_of(run: str) -> RunIdentities:
    """New ones, for the run of this id."""
    authority = _Authority(run)
    return RunIdentities(authority.identity("driver"), authority.identity("worker"))


class _Authority:
    def __init__(self, run: str) -> None:
        self._run = run
        self._key = ec.generate_private_key(ec.SECP256R1())
        may_sign = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = self._signed("authority", self._key, may_sign)

    def identity(self, role: str) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        text = key_text(key)
        certificate = self._signed(role, key, x509.BasicConstraints(ca=False, path_length=None))
        return Identity((text + certificate + self._certificate).decode())

    def _signed(self, role: str, key: ec.EllipticCurvePrivateKey, constraints: x509.BasicConstraints) -> bytes:
        now = datetime.now(UTC)
        issuer = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(self._name(role))
            .issuer_name(self._name("authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + _AFTER)
            .add_extension(constraints, critical=True)
            .add_extension(key_usage(signs=constraints.ca), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
        )
        if not constraints.ca:  # workers listen for each other, and the driver connects to them
            both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
            builder = builder.add_extension(both, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _name(self, role: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"cenote {role} {self._run}"[:LONGEST_NAME])])


def key_usage(*, signs: bool) -> x509.KeyUsage:
    """What a key is for: to sign other certificates, or to show who one is."""
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as a private file holds it."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
