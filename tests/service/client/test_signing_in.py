"""What is kept of services that a user signed in to."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from cenote.common.errors import CenoteError
from cenote.service.client.address import (
    NetworkAddress,
    SignedIn,
    address_of,
    fingerprint_of,
    keep_signed_in,
    plain_url,
    signed_in_file,
    spelled,
)
from cenote.service.client.connection import connect

URL = "https://pools.example:8443"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("CENOTE_TOKEN", raising=False)


def test_a_token_is_kept_for_one_service_in_a_private_file_and_forgotten_on_demand() -> None:
    pin = fingerprint_of(b"certificate")
    keep_signed_in(URL, SignedIn(token="secret", fingerprint=pin))
    keep_signed_in("https://other.example:1", SignedIn(token="other"))
    assert signed_in_file().stat().st_mode & 0o777 == 0o600
    assert address_of(f"{URL}/") == NetworkAddress(URL, "secret", fingerprint=pin)
    keep_signed_in(URL, None)
    assert (address_of(URL).token, address_of("https://other.example:1").token) == ("", "other")


def test_what_is_given_comes_before_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_signed_in(URL, SignedIn(token="kept"))
    monkeypatch.setenv("CENOTE_TOKEN", "set")
    assert address_of(URL).token == "set"
    assert address_of(URL, token="given").token == "given"
    assert "given" not in repr(address_of(URL, token="given"))


def test_a_file_that_others_can_read_is_refused() -> None:
    keep_signed_in(URL, SignedIn(token="kept"))
    signed_in_file().chmod(0o644)
    with pytest.raises(CenoteError, match="is not yours alone"):
        address_of(URL)


def test_only_the_pinned_certificate_is_recognised() -> None:
    address = address_of(URL, ca=f"sha256:{spelled(fingerprint_of(b'certificate'))}")
    address.recognise(b"certificate")
    with pytest.raises(ssl.SSLCertVerificationError, match="not the one that was pinned"):
        address.recognise(b"another")


@pytest.mark.parametrize("url", ["http://x:1", "https://", "https://x:99999", "https://x/path", "x:1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(CenoteError, match="is not an address of a service"):
        plain_url(url)


def test_an_address_without_tls_is_refused_and_not_taken_for_a_folder() -> None:
    with pytest.raises(CenoteError, match=r"(?s)http://pools.example:8443 is not an address.*https://HOST:PORT"):
        connect("http://pools.example:8443")
