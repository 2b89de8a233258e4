"""Test what is read from proxies, and what is found wrong with them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.credentials import DAY, HOUR, GridAuthority, Holder, write_proxy
from cenote.common.credential_files.places import CredentialFileError
from cenote.common.credential_files.proxy import proxy_faults, read_proxy


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> GridAuthority:
    return GridAuthority(tmp_path_factory.mktemp("authority"))


def faults(path: Path, authorities: Path | None) -> list[str]:
    return [one.what for one in proxy_faults(path, time.time(), authorities)]


def test_a_proxy_says_whose_it_is_and_when_it_ends(authority: GridAuthority) -> None:
    path = authority.proxy(lifetime=2 * HOUR, voms=["/cms/Role=production", "/cms/Role=NULL"])
    facts = read_proxy(path)
    assert facts.identity == facts.issuer == "/O=Cenote Test/CN=Ada Muon"
    assert facts.subject.startswith("/O=Cenote Test/CN=Ada Muon/CN=")
    assert facts.chain == (facts.subject, facts.identity)
    assert facts.ends == pytest.approx(time.time() + 2 * HOUR, abs=60)
    assert facts.begins < time.time()
    assert (facts.is_proxy, facts.key_matches) == (True, True)
    assert facts.voms == ("/cms/Role=production", "/cms/Role=NULL")
    assert facts.voms_ends == pytest.approx(facts.ends, abs=2)
    assert faults(path, authority.directory) == []


def test_a_proxy_of_a_proxy_belongs_to_the_same_person_and_ends_with_the_first(authority: GridAuthority) -> None:
    first = authority.proxy_holder(lifetime=HOUR)
    path = authority.proxy(of=first, lifetime=5 * HOUR)
    facts = read_proxy(path)
    assert facts.identity == "/O=Cenote Test/CN=Ada Muon"
    assert len(facts.chain) == 3
    assert facts.ends == pytest.approx(time.time() + HOUR, abs=60)
    assert facts.ends_first == facts.issuer
    assert facts.voms == ()
    assert facts.voms_ends is None
    assert faults(path, authority.directory) == []


def test_an_ended_proxy_says_since_when(authority: GridAuthority) -> None:
    [found] = faults(authority.proxy(lifetime=-300), authority.directory)
    assert found.startswith("ended 5m")


def test_a_proxy_is_not_valid_beyond_the_certificate_behind_it(authority: GridAuthority) -> None:
    expired = authority.user("Old Timer", lifetime=-HOUR)
    [found] = faults(authority.proxy(of=expired), authority.directory)
    assert "CN=Old Timer behind it ended 1h" in found


def test_voms_attributes_may_end_before_their_proxy(authority: GridAuthority) -> None:
    [found] = faults(authority.proxy(voms="/cms", voms_lifetime=-120), authority.directory)
    assert "VOMS" in found
    assert "ended 2m" in found


def test_a_proxy_of_the_future_says_when_it_begins(authority: GridAuthority) -> None:
    [found] = faults(authority.proxy(starts=HOUR, lifetime=DAY), authority.directory)
    assert found.startswith("begins in")


def test_a_proxy_that_others_can_read_is_at_fault(authority: GridAuthority) -> None:
    [found] = faults(authority.proxy(mode=0o644), authority.directory)
    assert "0644" in found


def test_a_proxy_needs_its_own_key(authority: GridAuthority, tmp_path: Path) -> None:
    path = write_proxy(tmp_path / "proxy", authority.proxy_holder(), key=authority.ada.key)
    assert not read_proxy(path).key_matches
    [found] = faults(path, authority.directory)
    assert "no private key" in found


def test_a_certificate_is_no_proxy(authority: GridAuthority, tmp_path: Path) -> None:
    path = write_proxy(tmp_path / "usercert", authority.ada)
    facts = read_proxy(path)
    assert (facts.is_proxy, facts.identity) == (False, "/O=Cenote Test/CN=Ada Muon")
    [found] = faults(path, authority.directory)
    assert "not a proxy" in found


def test_a_proxy_of_an_impostor_is_forged(authority: GridAuthority, tmp_path: Path) -> None:
    [found] = faults(GridAuthority(tmp_path / "impostor").proxy(), authority.directory)
    assert found.startswith("is forged")


def test_a_proxy_that_its_user_did_not_sign_is_forged(authority: GridAuthority, tmp_path: Path) -> None:
    stolen = authority.proxy_holder(authority.user())
    path = write_proxy(tmp_path / "proxy", type(stolen)(stolen.certificate, stolen.key, (authority.ada.certificate,)))
    for directory in (authority.directory, None):
        [found] = faults(path, directory)
        assert found.startswith("is forged")


def test_an_authority_that_is_not_trusted_is_named(authority: GridAuthority, tmp_path: Path) -> None:
    path = GridAuthority(tmp_path / "other", "Other CA").proxy()
    [found] = faults(path, authority.directory)
    assert "/O=Cenote Test/CN=Other CA" in found
    assert str(authority.directory) in found
    assert faults(path, None) == []


def test_a_proxy_without_the_certificate_behind_it_is_incomplete(authority: GridAuthority, tmp_path: Path) -> None:
    made = authority.proxy_holder()
    path = write_proxy(tmp_path / "proxy", Holder(made.certificate, made.key))
    [found] = faults(path, authority.directory)
    assert "incomplete" in found
    assert "Ada Muon" in found


def test_a_person_cannot_sign_for_another(authority: GridAuthority) -> None:
    stranger = GridAuthority(authority.folder / "stranger")
    stranger.name, stranger.key = authority.ada.certificate.subject, authority.ada.key
    bob = stranger.user("Bob")
    behind = Holder(bob.certificate, bob.key, (authority.ada.certificate,))
    [found] = faults(authority.proxy(of=behind), authority.directory)
    assert "is not an authority" in found


def test_an_authority_that_has_ended_is_named(authority: GridAuthority) -> None:
    path = authority.proxy(of=authority.user(lifetime=20 * DAY), lifetime=20 * DAY)
    [found] = proxy_faults(path, time.time() + 15 * DAY, authority.directory)
    assert "Cenote Test CA" in found.what
    assert str(authority.directory) in found.what


def test_an_authority_without_a_link_by_its_hash_is_not_found_by_software(tmp_path: Path) -> None:
    other = GridAuthority(tmp_path / "other")
    for path in [*other.directory.glob("*.0")]:
        path.rename(other.directory / "other-ca.pem")
    [found] = proxy_faults(other.proxy(), time.time(), other.directory)
    assert "hash" in found.what
    assert "rehash" in (found.hint or "")


def test_damaged_files_beside_the_authorities_are_passed_over(tmp_path: Path) -> None:
    other = GridAuthority(tmp_path / "other")
    (other.directory / "00000000.0").write_bytes(b"no certificate")
    (other.directory / "00000001.0").symlink_to("nowhere")
    assert faults(other.proxy(), other.directory) == []


@pytest.mark.parametrize("damage", [lambda _: b"", lambda text: text[:300], lambda text: text.replace(b"MII", b"!!!")])
def test_what_is_no_proxy_is_said_without_what_is_in_it(
    authority: GridAuthority, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "proxy"
    path.write_bytes(damage(authority.proxy().read_bytes()))
    path.chmod(0o600)
    [found] = faults(path, authority.directory)
    assert "no certificate" in found
    assert "MII" not in found


def test_facts_hold_nothing_secret(authority: GridAuthority) -> None:
    path = authority.proxy(voms="/cms")
    shown = repr(read_proxy(path))
    key = path.read_text().split("PRIVATE KEY-----")[1].splitlines()
    assert not any(line in shown for line in key if len(line) > 20)
    assert "BEGIN" not in shown


@settings(deadline=None)
@given(changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=5))
def test_damage_of_any_kind_is_a_fault_and_no_other_error(
    authority: GridAuthority, proxy_bytes: bytes, changes: list[tuple[float, int]]
) -> None:
    content = bytearray(proxy_bytes)
    for where, byte in changes:
        content[int(where * len(content))] = byte
    path = authority.folder / "damaged"
    path.write_bytes(content)
    path.chmod(0o600)
    try:
        assert read_proxy(path).chain
    except CredentialFileError:
        assert faults(path, authority.directory)
    else:
        faults(path, authority.directory)


@pytest.fixture(scope="module")
def proxy_bytes(authority: GridAuthority) -> bytes:
    return authority.proxy(voms="/cms").read_bytes()
