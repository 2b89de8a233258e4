"""Make credentials for tests: certificates and proxies of an own authority, tokens of an own issuer.

They are what a grid site has, with short names: a folder of trusted authorities, a certificate for each host, RFC 3820
proxies that users make from theirs, and WLCG tokens.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from uuid import uuid4

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

HOUR = 3600.0
DAY = 24 * HOUR
ANY_AUDIENCE = "https://wlcg.cern.ch/jwt/v1/any"
"""What the WLCG profile calls a token for every storage."""

_PROXY_CERTIFICATE_INFO = ObjectIdentifier("1.3.6.1.5.5.7.1.14")
_MAY_DO_ALL_THAT_ITS_ISSUER_MAY = bytes.fromhex("300c300a06082b06010505071501")
_VOMS_CERTIFICATES = ObjectIdentifier("1.3.6.1.4.1.8005.100.100.5")


@dataclass(frozen=True)
class Holder:
    """A certificate, its key, and the certificates between it and the authority."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey = field(repr=False)
    chain: tuple[x509.Certificate, ...] = ()

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `NAME.pem` and `NAME.key`, as servers want them."""
        certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
        certificate.write_bytes(b"".join(_pem(one) for one in (self.certificate, *self.chain)))
        _write_private(key, _pem_key(self.key))
        return certificate, key


class GridAuthority:
    """A certificate authority with a folder of trusted authorities that holds only itself.

    Another one of the same name has another key: what it signs is forged for those who trust the first. Times are
    seconds from now; negative ones are past.
    """

    def __init__(self, folder: Path, name: str = "Cenote Test CA") -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.name = _name("Cenote Test", name)
        self.key = _new_key()
        authority = x509.BasicConstraints(ca=True, path_length=None)
        builder = _certificate(self.name, self.name, self.key.public_key(), begins=-DAY, ends=10 * DAY)
        builder = builder.add_extension(authority, critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), False)
        self.certificate = builder.sign(self.key, hashes.SHA256())

    @cached_property
    def directory(self) -> Path:
        """What `X509_CERT_DIR` names: the authority under its old and its new hash, and what it may sign."""
        directory = self.folder / "certificates"
        directory.mkdir()
        policy = (
            f"access_id_CA X509 '{_slashes(self.name)}'\n"
            "pos_rights globus CA:sign\n"
            "cond_subjects globus '\"/O=Cenote Test/*\"'\n"
        )
        for digest in (_old_hash(self.name), _new_hash(self.name)):
            (directory / f"{digest}.0").write_bytes(_pem(self.certificate))
            (directory / f"{digest}.signing_policy").write_text(policy)
        return directory

    def host(self, *names: str, lifetime: float = DAY) -> Holder:
        """A certificate for a server with these names, addresses among them; `localhost` where none is given."""
        found = names or ("localhost", "127.0.0.1")
        key = _new_key()
        builder = self._issued(_name("Cenote Test", found[0]), key, begins=-HOUR, ends=lifetime)
        builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(name) for name in found]), False)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        return Holder(builder.add_extension(usage, False).sign(self.key, hashes.SHA256()), key)

    def user(self, name: str = "Ada Muon", *, lifetime: float = 5 * DAY) -> Holder:
        """A person's certificate."""
        key = _new_key()
        builder = self._issued(_name("Cenote Test", name), key, begins=-DAY, ends=lifetime)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return Holder(builder.add_extension(usage, False).sign(self.key, hashes.SHA256()), key)

    @cached_property
    def ada(self) -> Holder:
        """The user whose proxies are made unless another is named."""
        return self.user()

    def proxy(
        self,
        path: Path | None = None,
        *,
        of: Holder | None = None,
        lifetime: float = 12 * HOUR,
        starts: float = -HOUR,
        voms: str | Sequence[str] = (),
        voms_lifetime: float | None = None,
        mode: int = 0o600,
    ) -> Path:
        """Write a proxy of a user (or of a proxy), as `voms-proxy-init` does; its path."""
        made = self.proxy_holder(of, lifetime=lifetime, starts=starts, voms=voms, voms_lifetime=voms_lifetime)
        target = path or self.folder / f"x509up_{uuid4().hex[:8]}"
        return write_proxy(target, made, mode=mode)

    def proxy_holder(
        self,
        of: Holder | None = None,
        *,
        lifetime: float = 12 * HOUR,
        starts: float = -HOUR,
        voms: str | Sequence[str] = (),
        voms_lifetime: float | None = None,
    ) -> Holder:
        """The same, unwritten: for proxies of proxies, and for damaged ones."""
        issuer = of or self.ada
        key, number = _new_key(), str(secrets.randbelow(10**9))
        subject = x509.Name([*issuer.certificate.subject.rdns, x509.RelativeDistinguishedName([_common_name(number)])])
        builder = _certificate(subject, issuer.certificate.subject, key.public_key(), begins=starts, ends=lifetime)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        info = x509.UnrecognizedExtension(_PROXY_CERTIFICATE_INFO, _MAY_DO_ALL_THAT_ITS_ISSUER_MAY)
        builder = builder.add_extension(info, critical=True)
        names = [voms] if isinstance(voms, str) else list(voms)
        if names:
            ends = lifetime if voms_lifetime is None else voms_lifetime
            granted = self._attributes(issuer.certificate, names, starts, ends)
            builder = builder.add_extension(x509.UnrecognizedExtension(_VOMS_CERTIFICATES, granted), critical=False)
        certificate = builder.sign(issuer.key, hashes.SHA256())
        return Holder(certificate, key, (issuer.certificate, *issuer.chain))

    def _issued(self, subject: x509.Name, key: rsa.RSAPrivateKey, *, begins: float, ends: float) -> _Builder:
        builder = _certificate(subject, self.name, key.public_key(), begins=begins, ends=ends)
        own = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        return builder.add_extension(own, False).add_extension(_usage(signs_certificates=False), critical=True)

    def _attributes(self, holder: x509.Certificate, names: Sequence[str], begins: float, ends: float) -> bytes:
        """An attribute certificate (RFC 3281) as VOMS writes it, signed by this authority."""
        sha256_with_rsa = _der(0x30, _oid("1.2.840.113549.1.1.11"), _der(0x05))
        general = _der(0xA4, holder.issuer.public_bytes())
        own = _der(0xA0, _der(0x30, _der(0xA4, self.name.public_bytes())))
        fqans = [_der(0x04, f"{name}/Capability=NULL".encode()) for name in names]
        granted_by = _der(0xA0, _der(0x86, b"cenote://voms.cenote.test:15000"))
        attribute = _der(
            0x30,
            _oid("1.3.6.1.4.1.8005.100.100.4"),
            _der(0x31, _der(0x30, granted_by, _der(0x30, *fqans))),
        )
        info = _der(
            0x30,
            _der(0x02, b"\x01"),
            _der(0x30, _der(0xA0, _der(0x30, general), _integer(holder.serial_number))),
            own,
            sha256_with_rsa,
            _der(0x02, b"\x07"),
            _der(0x30, _generalized_time(begins), _generalized_time(ends)),
            _der(0x30, attribute),
        )
        signature = self.key.sign(info, PKCS1v15(), hashes.SHA256())
        return _der(0x30, _der(0x30, _der(0x30, info, sha256_with_rsa, _der(0x03, b"\0" + signature))))


class TokenIssuer:
    """Signs WLCG tokens, and says with which key, as the server at its address would."""

    def __init__(self, url: str = "https://localhost:9443") -> None:
        self.url = url
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.key_id = uuid4().hex[:8]

    def token(
        self,
        *,
        audience: str | Sequence[str] = ANY_AUDIENCE,
        scope: str = "storage.read:/",
        lifetime: float = HOUR,
        starts: float = -60.0,
        subject: str = "ada",
        signed_by: TokenIssuer | None = None,
    ) -> str:
        """A token; another issuer's key makes it forged."""
        now = time.time()
        claims = {
            "wlcg.ver": "1.0",
            "iss": self.url,
            "sub": subject,
            "aud": audience if isinstance(audience, str) else list(audience),
            "scope": scope,
            "iat": int(now + starts),
            "nbf": int(now + starts),
            "exp": int(now + lifetime),
            "jti": uuid4().hex,
        }
        return jwt.encode(claims, (signed_by or self).key, algorithm="ES256", headers={"kid": self.key_id})

    def key_set(self) -> dict[str, list[dict[str, object]]]:
        """The keys that verify its tokens, as JWKS."""
        public = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": self.key_id, "use": "sig", "alg": "ES256"}]}

    def configuration(self) -> dict[str, str]:
        """What it serves under `.well-known/openid-configuration`."""
        return {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"}


def write_proxy(path: Path, holder: Holder, *, key: rsa.RSAPrivateKey | None = None, mode: int = 0o600) -> Path:
    """Certificate, key and chain in one file; another key than its own makes it useless."""
    certificates = [_pem(one) for one in (holder.certificate, *holder.chain)]
    return _write_private(path, b"".join([certificates[0], _pem_key(key or holder.key), *certificates[1:]]), mode=mode)


def write_token(path: Path, token: str, *, mode: int = 0o600) -> Path:
    """A token in a file of its own."""
    return _write_private(path, f"{token}\n".encode(), mode=mode)


_Builder = x509.CertificateBuilder


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey, *, begins: float, ends: float
) -> _Builder:
    now = time.time()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now + begins, UTC))
        .not_valid_after(datetime.fromtimestamp(now + ends, UTC))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _name(organisation: str, common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation), _common_name(common_name)])


def _common_name(value: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(NameOID.COMMON_NAME, value)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _slashes(name: x509.Name) -> str:
    return "".join(f"/{one.rfc4514_attribute_name}={one.value!s}" for one in name)


def _old_hash(name: x509.Name) -> str:
    """The name of its file before OpenSSL 1.0, which some clients still look for."""
    return hashlib.md5(name.public_bytes(), usedforsecurity=False).digest()[3::-1].hex()


def _new_hash(name: x509.Name) -> str:
    """OpenSSL's `X509_NAME_hash`: of the name in lower case, as UTF-8, without its outer length."""
    parts = [
        _der(0x31, _der(0x30, _oid(one.oid.dotted_string), _der(0x0C, str(one.value).lower().encode()))) for one in name
    ]
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()[3::-1].hex()


def _der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 128 + len(length)]) + length + content


def _oid(dotted: str) -> bytes:
    first, second, *rest = (int(part) for part in dotted.split("."))
    encoded = bytearray([40 * first + second])
    for part in rest:
        septets = [part & 127]
        while part := part >> 7:
            septets.append(128 + (part & 127))
        encoded += bytes(reversed(septets))
    return _der(0x06, bytes(encoded))


def _integer(number: int) -> bytes:
    return _der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _generalized_time(seconds: float) -> bytes:
    return _der(0x18, datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y%m%d%H%M%SZ").encode())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write_private(path: Path, content: bytes, *, mode: int = 0o600) -> Path:
    """Replaced in one step, as a renewal is."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.touch(mode=0o600)
    temporary.write_bytes(content)
    temporary.chmod(mode)
    return temporary.rename(path)
