"""The certificates of a run: both sides show theirs, and those of another run open nothing."""

from __future__ import annotations

import os
import re
import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from cenote.common.certificates import identity
from cenote.common.certificates.authority import identities_of
from cenote.common.certificates.identity import Identity, refusal_in_words


def answer_of(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    """What a client hears from a server that greets whom it knows. Raises OSError where either refuses the other."""
    here, there = socket.socketpair()

    def serve() -> None:
        with here:
            try:
                with server.wrap_socket(here, server_side=True) as opened:
                    opened.sendall(b"welcome")
            except OSError:
                return

    greeting = threading.Thread(target=serve)
    greeting.start()
    try:
        with client.wrap_socket(there) as opened:
            return opened.recv(100)
    finally:
        there.close()
        greeting.join()


def trusting_everything(context: ssl.SSLContext) -> ssl.SSLContext:
    """As a stranger would: whatever the other side shows is good."""
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_driver_and_workers_of_a_run_understand_each_other_whoever_connects() -> None:
    ours = identities_of("a")
    for one in (ours.driver, ours.workers):
        for other in (ours.driver, ours.workers):
            assert answer_of(one.listening(), other.connecting()) == b"welcome"


def test_the_certificate_of_another_run_is_refused_by_either_side() -> None:
    ours, other = identities_of("a"), identities_of("a")
    with pytest.raises(ssl.SSLError):
        answer_of(ours.driver.listening(), trusting_everything(other.workers.connecting()))
    with pytest.raises(ssl.SSLCertVerificationError):
        answer_of(trusting_everything(other.driver.listening()), ours.workers.connecting())


def test_nothing_is_said_to_a_client_without_a_certificate() -> None:
    stranger = trusting_everything(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    with pytest.raises(ssl.SSLError):
        answer_of(identities_of("a").driver.listening(), stranger)


def test_a_certificate_of_the_run_signs_no_further_one() -> None:
    """Only the authority signs, and its key is in neither identity."""
    ours = identities_of("a")
    key, certificate, authority = parts(ours.workers)
    assert "BEGIN PRIVATE KEY" in key
    assert ours.workers.pem.count("PRIVATE KEY") == 2
    assert constraints(certificate) == x509.BasicConstraints(ca=False, path_length=None)
    assert constraints(authority) == x509.BasicConstraints(ca=True, path_length=0)
    assert parts(ours.driver)[2] == authority
    signer = x509.load_pem_x509_certificate(authority.encode()).public_key()
    assert isinstance(signer, ec.EllipticCurvePublicKey)
    for one in (ours.driver, ours.workers):
        own = x509.load_pem_x509_certificate(parts(one)[1].encode())
        assert own.public_key() != signer
        own.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))


def constraints(certificate: str) -> x509.BasicConstraints:
    extensions = x509.load_pem_x509_certificate(certificate.encode()).extensions
    return extensions.get_extension_for_class(x509.BasicConstraints).value


def parts(one: Identity) -> list[str]:
    """Its key, its certificate and the authority's."""
    return re.findall(r"-----BEGIN .+?-----END [A-Z ]+-----\n", one.pem, re.DOTALL)


def test_certificates_stand_clocks_that_differ_and_runs_that_last() -> None:
    certificate = x509.load_pem_x509_certificate(parts(identities_of("a").workers)[1].encode())
    now = datetime.now(UTC)
    assert certificate.not_valid_before_utc < now - timedelta(hours=23)
    assert certificate.not_valid_after_utc > now + timedelta(days=365)


def test_older_protocols_are_not_spoken() -> None:
    ours = identities_of("a")
    old = ours.workers.connecting()
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        answer_of(ours.driver.listening(), old)


def test_the_file_of_the_workers_is_private_wherever_it_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        tmp_path.chmod(0o777)
        file = tmp_path / "open to all" / "identity" / "run.pem"
        ours = identities_of("a").workers
        ours.write(file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert Identity.read(file) == ours
    identity.forget(file)
    assert not file.parent.exists()


def test_what_a_killed_run_left_is_replaced(tmp_path: Path) -> None:
    left, new = tmp_path / "identity" / "old.pem", tmp_path / "identity" / "new.pem"
    identities_of("old").workers.write(left)
    identities_of("new").workers.write(new)
    assert [file.name for file in new.parent.iterdir()] == ["new.pem"]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "identity").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        identities_of("a").workers.write(tmp_path / "identity" / "run.pem")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_file_that_others_could_write_is_not_trusted(tmp_path: Path) -> None:
    file = tmp_path / "identity" / "run.pem"
    identities_of("a").workers.write(file)
    file.chmod(0o620)
    with pytest.raises(PermissionError, match="other users could write"):
        Identity.read(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    file = tmp_path / "identity" / "run.pem"
    identities_of("a").workers.write(file)
    os.chown(file, 65534, 65534)
    with pytest.raises(PermissionError, match="another user"):
        Identity.read(file)


def test_a_file_that_others_could_read_is_made_private_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "run.pem"
    file.write_text(identities_of("a").workers.pem)
    file.chmod(0o644)
    Identity.read(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_identity_does_not_show_its_key() -> None:
    assert "KEY" not in repr(identities_of("a"))


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"])
def test_what_is_no_identity_is_refused(text: str) -> None:
    with pytest.raises(OSError, match=r".+"):
        Identity(text).connecting()


def test_words_for_a_driver_of_another_run() -> None:
    ours, other = identities_of("a"), identities_of("b")
    with pytest.raises(ssl.SSLError) as refused:
        answer_of(other.driver.listening(), ours.workers.connecting())
    assert refusal_in_words(refused.value).startswith("what answers there is not the driver of this run")


def test_words_for_clocks_that_differ() -> None:
    early = ssl.SSLCertVerificationError(1, "certificate verify failed")
    early.verify_message = "certificate is not yet valid"
    assert "the clock of this node is wrong" in refusal_in_words(early)
