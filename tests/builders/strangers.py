"""What a stranger on the same machine can try: every port of a run's processes, in every language they might speak."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from distributed import Client

from cenote.common.certificates.authority import identities_of
from cenote.execution.backends.dask.doors import RunSecurity

_SECONDS = 10.0
_LISTENS = "0A"
_ALERT = b"\x15\x03"
"""How a TLS server begins to say that it does not understand."""
_NOBODY = 65534
PAGE = b"GET /info/main/workers.html HTTP/1.0\r\n\r\n"


@dataclass(frozen=True)
class Door:
    """An address that a process listens on."""

    process: int
    host: str
    port: int

    @property
    def is_everywhere(self) -> bool:
        return self.host in ("0.0.0.0", "::")

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def processes_of(run: str) -> list[int]:
    """The workers of a run, by their command lines, as anybody can read them."""
    own = f"--run\0{run}\0".encode()
    return [int(file.parent.name) for file, words in _command_lines() if own in words]


def _command_lines() -> Iterator[tuple[Path, bytes]]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield file, file.read_bytes()
        except OSError:  # gone meanwhile
            continue


def doors_of(process: int) -> list[Door]:
    """Every TCP address that it listens on."""
    links = [str(link.readlink()) for link in Path(f"/proc/{process}/fd").iterdir() if link.is_symlink()]
    inodes = {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:[")}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and fields[9] in inodes:
                host, _, port = fields[1].partition(":")
                found.append(Door(process, _address(host), int(port, 16)))
    return found


def _address(written: str) -> str:
    """As the kernel writes it: words of four bytes, each in the order of this machine."""
    words = [
        bytes.fromhex(written[at : at + 8])[:: -1 if sys.byteorder == "little" else 1]
        for at in range(0, len(written), 8)
    ]
    packed = b"".join(words)
    return str(IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed))


def what_strangers_get(door: Door) -> list[str]:
    """All that was got out of it; empty where the door is closed. Every attempt comes to its end."""
    other = identities_of("another run")
    without = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    answers = {
        "HTTP": answer(door, PAGE),
        "a greeting of Dask": answer(door, (8).to_bytes(8, "little") + b"\x00" * 8),
        "nonsense": answer(door, b"\xff" * 4096),
        "TLS without a certificate": answer(door, PAGE, _trusting(without)),
        "TLS as another run's worker": answer(door, PAGE, _trusting(other.workers.connecting())),
        "TLS as another run's driver": answer(door, PAGE, _trusting(other.driver.connecting())),
    }
    got = [f"{door}: {name} got {answer[:80]!r}" for name, answer in answers.items() if answer]
    if runs_a_function(f"tcp://{door}"):
        got.append(f"{door}: Dask ran a function")
    if runs_a_function(f"tls://{door}", RunSecurity(other.driver)):
        got.append(f"{door}: Dask of another run ran a function")
    return got


def runs_a_function(address: str, security: RunSecurity | None = None) -> bool:
    """Whether a client of Dask can join and have something done there."""
    try:
        with Client(address, security=security, timeout=2, set_as_default=False) as client:
            return bool(client.run_on_scheduler(os.getpid))
    except OSError:
        return False


def _trusting(context: ssl.SSLContext) -> ssl.SSLContext:
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def answer(door: Door, said: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """What comes back, but for a word that it was not understood. Raises TimeoutError where the other side waits."""
    try:
        with (
            socket.create_connection((door.host, door.port), timeout=_SECONDS) as plain,
            context.wrap_socket(plain) if context else plain as connection,
        ):
            connection.sendall(said)
            if context is None:
                connection.shutdown(socket.SHUT_WR)
            heard = connection.recv(4096)
    except TimeoutError:
        raise
    except OSError:  # ssl's errors too
        return b""
    return b"" if heard.startswith(_ALERT) else heard


def can_be_opened_by_another_user(path: Path) -> bool:
    """Whether an account without rights could read a file, or list a folder. Only root can find out."""
    tried = subprocess.run(
        ["ls" if path.is_dir() else "cat", str(path)],
        user=_NOBODY,
        group=_NOBODY,
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert tried.returncode == 0 or "Permission denied" in tried.stderr, tried.stderr
    return tried.returncode == 0
