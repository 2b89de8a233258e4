"""Read X.509 proxies: whose they are, when they end, and whether they hold together.

Chains are followed from the proxy to an authority of the folder of trusted ones, by names, times and signatures.
Revocation lists and limits that a proxy's policy sets are left to servers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from cenote.common.credential_files.places import CredentialFileError, Fault, file_faults, read_file, time_faults
from cenote.common.values import dataclass

RENEWAL = "make a new one with voms-proxy-init, or as your experiment says"

_PROXY_EXTENSIONS = frozenset({"1.3.6.1.5.5.7.1.14", "1.3.6.1.4.1.3536.1.222"})
"""ProxyCertInfo of RFC 3820, and of the draft before it."""
_VOMS_EXTENSION = "1.3.6.1.4.1.8005.100.100.5"
_VOMS_NAMES = bytes.fromhex("060a2b06010401be45646404")
"""The object identifier 1.3.6.1.4.1.8005.100.100.4 in DER."""
_KEY = re.compile(rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.+?-----END \1PRIVATE KEY-----", re.DOTALL)
_BY_HASH = re.compile(r"[0-9a-f]{8}\.\d+")
"""Files of authorities as OpenSSL, and with it all grid software, looks for them."""
_BY_NAME = re.compile(r".*\.(pem|crt)")


@dataclass(frozen=True)
class ProxyFacts:
    """What may be shown of a proxy."""

    subject: str
    """Names are written with slashes, as grid software does: `/DC=ch/DC=cern/CN=Ada Muon`."""
    issuer: str
    identity: str
    """The subject of the certificate that the proxy was made from."""
    authority: str
    """Who issued the last certificate of the chain."""
    begins: float
    """In seconds since the epoch, the latest of the chain."""
    ends: float
    """The earliest of the chain."""
    ends_first: str
    """The subject of the certificate that ends first."""
    key_matches: bool
    is_proxy: bool
    """Whether the first certificate is a proxy at all."""
    voms: tuple[str, ...]
    """Groups and roles that it claims: `/cms/Role=production`."""
    voms_ends: float | None
    """When these end, which may be earlier."""
    chain: tuple[str, ...]
    """The subjects of its certificates, the proxy's first."""
    certificates: tuple[x509.Certificate, ...] = field(repr=False, compare=False)


def read_proxy(path: Path) -> ProxyFacts:
    """What is in the file of a proxy. Raises `CredentialFileError` where it is none."""
    return parse_proxy(read_file(path))


def parse_proxy(content: bytes) -> ProxyFacts:
    """The same for the contents of the file."""
    try:
        return _facts(tuple(x509.load_pem_x509_certificates(content)), content)
    except (ValueError, UnsupportedAlgorithm):  # much is decoded only when it is asked for
        raise CredentialFileError("holds no certificate that can be read") from None


def _facts(chain: tuple[x509.Certificate, ...], content: bytes) -> ProxyFacts:
    first = chain[0]
    ended = min(chain, key=lambda one: one.not_valid_after_utc)
    proxies = [one for one in chain if _is_proxy(one)]
    groups, groups_end = _voms(chain)
    return ProxyFacts(
        subject=_slashes(first.subject),
        issuer=_slashes(first.issuer),
        identity=_slashes(proxies[-1].issuer if proxies else first.subject),
        authority=_slashes(chain[-1].issuer),
        begins=max(one.not_valid_before_utc.timestamp() for one in chain),
        ends=ended.not_valid_after_utc.timestamp(),
        ends_first=_slashes(ended.subject),
        key_matches=_key_matches(first, content),
        is_proxy=first in proxies,
        voms=groups,
        voms_ends=groups_end,
        chain=tuple(_slashes(one.subject) for one in chain),
        certificates=chain,
    )


def proxy_faults(path: Path, now: float, authorities: Path | None) -> list[Fault]:
    """Everything that is wrong with a proxy; signatures count where there is a folder of authorities."""
    faults = file_faults(path)
    try:
        facts = read_proxy(path)
    except CredentialFileError as problem:
        return [*faults, Fault(str(problem), RENEWAL)]
    if not facts.is_proxy:
        faults.append(Fault(f"holds the certificate of {facts.subject}, not a proxy of it", RENEWAL))
    if not facts.key_matches:
        faults.append(Fault("holds no private key that belongs to its certificate", RENEWAL))
    faults += _lifetime_faults(facts, now)
    if broken := _broken_chain(facts.certificates):
        faults.append(broken)
    elif authorities is not None and (unknown := _without_authority(facts.certificates, authorities, now)):
        faults.append(unknown)
    return faults


def _lifetime_faults(facts: ProxyFacts, now: float) -> list[Fault]:
    found = time_faults(facts.begins, facts.ends, now, renewal=RENEWAL)
    if found and facts.ends <= now and facts.ends_first != facts.subject:
        [late] = found
        return [Fault(f"is no longer valid: the certificate {facts.ends_first} behind it {late.what}", late.hint)]
    if not found and facts.voms_ends is not None and facts.voms_ends <= now:
        [late] = time_faults(None, facts.voms_ends, now, renewal=RENEWAL)
        return [Fault(f"has VOMS attributes that are no longer valid: the last {late.what}", late.hint)]
    return found


def _broken_chain(chain: Sequence[x509.Certificate]) -> Fault | None:
    for one, issuer in pairwise(chain):
        if not _signed(one, issuer):
            what = f"is forged or damaged: {_slashes(issuer.subject)} did not sign {_slashes(one.subject)}"
            return Fault(what, RENEWAL)
        if not _is_proxy(one) and not _may_sign(issuer):
            what = f"is forged: {_slashes(issuer.subject)}, who signed {_slashes(one.subject)}, is not an authority"
            return Fault(what, RENEWAL)
    return None


def _may_sign(certificate: x509.Certificate) -> bool:
    """Whether it is one of an authority."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _without_authority(chain: Sequence[x509.Certificate], folder: Path, now: float) -> Fault | None:
    """What keeps the chain from an authority of the folder, which may be its last certificate itself."""
    last = chain[-1]
    named = [one for one in _authorities(folder, _BY_HASH) if one.subject == last.issuer]
    if not named and any(one.subject == last.issuer for one in _authorities(folder, _BY_NAME)):
        what = f"comes from {_slashes(last.issuer)}, which software does not find in {folder}"
        return Fault(f"{what}: a link by its hash is missing", f"openssl rehash {folder}")
    if not named and _is_proxy(last):
        return Fault(f"is incomplete: it lacks the certificate of {_slashes(last.issuer)}", RENEWAL)
    if not named:
        return Fault(
            f"comes from {_slashes(last.issuer)}, which is not an authority in {folder}",
            "set X509_CERT_DIR to the folder of trusted authorities of your site",
        )
    signers = [one for one in named if _signed(last, one)]
    if not signers:
        return Fault(f"is forged: {_slashes(last.issuer)} of {folder} did not sign {_slashes(last.subject)}", RENEWAL)
    ends = max(one.not_valid_after_utc.timestamp() for one in signers)
    if late := time_faults(None, ends, now, renewal="ask the administrators of your site for new certificates"):
        what = f"comes from {_slashes(last.issuer)}, whose certificate in {folder} {late[0].what}"
        return Fault(what, late[0].hint)
    return None


def _authorities(folder: Path, names: re.Pattern[str]) -> Iterator[x509.Certificate]:
    """Every certificate once that the folder has under such a name: most are there under two hashes."""
    seen: set[bytes] = set()
    for path in sorted(folder.iterdir()):
        if not names.fullmatch(path.name):
            continue
        try:
            content = path.read_bytes()
            if content not in seen:
                seen.add(content)
                yield from x509.load_pem_x509_certificates(content)
        except (OSError, ValueError, UnsupportedAlgorithm):  # someone else's damaged file
            continue


def _signed(one: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        one.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def _is_proxy(certificate: x509.Certificate) -> bool:
    """By its extension, or by its last name as in Globus' first proxies, which some sites still make."""
    if any(one.oid.dotted_string in _PROXY_EXTENSIONS for one in certificate.extensions):
        return True
    *before, last = certificate.subject.rdns
    plain = [one.value for one in last if one.oid == NameOID.COMMON_NAME]
    return before == certificate.issuer.rdns and plain in (["proxy"], ["limited proxy"])


def _key_matches(certificate: x509.Certificate, content: bytes) -> bool:
    found = _KEY.search(content)
    if found is None:
        return False
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        key = load_pem_private_key(found[0], password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a password
        return False
    return key.public_key().public_bytes(*form) == certificate.public_key().public_bytes(*form)


def _slashes(name: x509.Name) -> str:
    names = {NameOID.EMAIL_ADDRESS: "emailAddress"}
    return "".join(f"/{names.get(one.oid) or one.rfc4514_attribute_name}={one.value!s}" for one in name)


def _voms(chain: Sequence[x509.Certificate]) -> tuple[tuple[str, ...], float | None]:
    """Groups and roles of the attribute certificates in a proxy, unverified, and when the first of them ends."""
    groups: list[str] = []
    ends: list[float] = []
    for certificate in chain:
        for extension in certificate.extensions:
            value = extension.value
            if extension.oid.dotted_string != _VOMS_EXTENSION or not isinstance(value, x509.UnrecognizedExtension):
                continue
            with suppress(ValueError, RecursionError):  # it is for servers to refuse what is damaged there
                for inner in _sequences(value.value):
                    groups += _voms_names(inner)
                    ends += _end_of_validity(inner)
    return tuple(dict.fromkeys(groups)), min(ends, default=None)


_Value = tuple[int, bytes]
_SEQUENCE, _SET, _OCTETS, _TIME = 0x30, 0x31, 0x04, 0x18


def _voms_names(attribute: Sequence[_Value]) -> list[str]:
    """Of an attribute: its identifier, and a set of a sequence that ends with the sequence of names."""
    if len(attribute) != 2 or attribute[0] != (0x06, _VOMS_NAMES[2:]):
        return []
    names = [value for inner in _sequences(attribute[1][1]) for tag, value in inner if tag == _OCTETS]
    return [name.decode("utf-8", "replace").removesuffix("/Capability=NULL") for name in names]


def _end_of_validity(inner: Sequence[_Value]) -> list[float]:
    if [tag for tag, _ in inner] != [_TIME, _TIME]:
        return []
    return [datetime.strptime(inner[1][1].decode("ascii"), "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()]


def _sequences(content: bytes) -> Iterator[list[_Value]]:
    """The members of every sequence in DER, the outer before the inner; ValueError where it is none."""
    for tag, value in _values(content):
        if tag == _SEQUENCE:
            yield list(_values(value))
        if tag & 0x20:  # made of others
            yield from _sequences(value)


def _values(content: bytes) -> Iterator[_Value]:
    position = 0
    while position < len(content):
        tag, size, start = content[position], content[position + 1] if position + 1 < len(content) else 0, position + 2
        if size > 0x80:
            start += size - 0x80
            size = int.from_bytes(content[position + 2 : start], "big")
        position = start + size
        if position > len(content) or tag & 0x1F == 0x1F:
            raise ValueError("this is not DER")
        yield tag, content[start:position]
