"""Keep the certificate that a service shows to those who come over the network: its own, or one of the site."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cenote.common import errors, storage
from cenote.common.certificates.authority import LONGEST_NAME, key_text, key_usage
from cenote.common.values import dataclass
from cenote.service.client.address import fingerprint_of

_YEARS = timedelta(days=3650)
_BEFORE = timedelta(days=1)
EVERYWHERE = ("0.0.0.0", "::", "")
"""Hosts that stand for every address of this machine."""


@dataclass(frozen=True)
class DoorCertificate:
    """What is shown, and its key."""

    certificate: Path
    key: Path

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as clients pin it."""
        found = x509.load_pem_x509_certificates(self.certificate.read_bytes())[0]
        return fingerprint_of(found.public_bytes(serialization.Encoding.DER))

    def listening(self) -> ssl.SSLContext:
        """For what takes connections. Raises where the files are not a certificate and its key."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except OSError as problem:  # and those of ssl
            raise errors.error(
                errors.BAD_CREDENTIAL,
                f"{self.certificate} and {self.key} are not a certificate and its key: {problem.strerror or problem}",
            ) from problem
        return context


def own_certificate(folder: Path, host: str) -> DoorCertificate:
    """The one in this private folder; made where there is none for this host, or it ends."""
    kept = DoorCertificate(folder / "certificate.pem", folder / "key.pem")
    if not _is_good(kept, host):
        key = ec.generate_private_key(ec.SECP256R1())
        storage.write_private(kept.key, key_text(key))
        storage.write_text(kept.certificate, _signed(key, names_of(host)).decode())
    return kept


def names_of(host: str) -> tuple[str, ...]:
    """Names and addresses by which a door on this host is reached."""
    name = socket.gethostname()
    given = () if host in EVERYWHERE else (host,)
    return tuple(dict.fromkeys((*given, name, socket.getfqdn(name), "localhost", "127.0.0.1", "::1")))


def _is_good(kept: DoorCertificate, host: str) -> bool:
    try:
        found = x509.load_pem_x509_certificate(kept.certificate.read_bytes())
        kept.listening()
    except (OSError, ValueError, errors.CenoteError):
        return False
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    known = {str(one.value) for one in names}
    return found.not_valid_after_utc > datetime.now(UTC) + _BEFORE and (host in EVERYWHERE or host in known)


def _signed(key: ec.EllipticCurvePrivateKey, names: Sequence[str]) -> bytes:
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"cenote service {names[0]}"[:LONGEST_NAME])])
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _YEARS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(own, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
