"""Start real XRootD servers on loopback: open ones, and ones that ask for a proxy or for a token.

XRootD cannot be made to listen on one address; it is made to accept this machine alone.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

from builders.credentials import DAY, GridAuthority, TokenIssuer

from .conftest import ROOT, cannot_run, free_port, listens, running, wait_for
from .debian_packages import unpacked

PACKAGES = ("xrootd-server", "xrootd-plugins", "xrootd-server-plugins", "xrootd-scitokens-plugins")
NEEDED = ("xrootd", "libxrd", "libmacaroons", "libscitokens", "libtinyxml")
AUDIENCE = "https://storage.cenote.test"
"""Of the server with tokens, beside those for any."""

_OPEN = """
xrd.port {port}
xrd.network nodnr
xrd.allow host localhost
xrd.allow host 127.0.0.1
oss.localroot {data}
all.export /
all.adminpath {own}
all.pidpath {own}
"""
_WITH_PROXIES = """
xrootd.seclib libXrdSec.so
sec.protocol gsi -certdir:{authorities} -cert:{certificate} -key:{key} -crl:0 -gmapopt:10 -dlgpxy:0
sec.protbind * only gsi
"""
_WITH_TOKENS = """
xrd.tls {certificate} {key}
xrd.tlsca certdir {authorities}
xrootd.tls all
xrootd.seclib libXrdSec.so
sec.protocol ztn
sec.protbind * only ztn
ofs.authorize 1
ofs.authlib libXrdAccSciTokens.so config={issuers}
xrd.protocol http libXrdHttp.so
http.header2cgi Authorization authz
"""
_ISSUERS = """
[Global]
audience = {audience}

[Issuer Test]
issuer = {issuer}
base_path = /
default_user = nobody
"""


@dataclass(frozen=True)
class StorageServer:
    """A server of a folder of files."""

    port: int
    log: Path

    @property
    def root(self) -> str:
        """Its address for `root://`, to be followed by a path without a slash."""
        return f"root://localhost:{self.port}//"

    @property
    def roots(self) -> str:
        """The same, encrypted from the first byte on."""
        return f"roots://localhost:{self.port}//"

    @property
    def https(self) -> str:
        """The same for HTTP clients, where the server speaks it."""
        return f"https://localhost:{self.port}/"


def demand_client() -> None:
    """Live tests of XRootD need the extra of the package."""
    for module in ("XRootD", "fsspec_xrootd"):
        if find_spec(module) is None:
            cannot_run(f"the client is not installed ({module}): pip install 'cenote[xrootd]'")


@contextmanager
def open_server(data: Path, folder: Path) -> Iterator[StorageServer]:
    """A server that asks for nothing."""
    with _serving(data, folder, "") as server:
        yield server


@contextmanager
def redirecting_server(to: StorageServer, folder: Path) -> Iterator[StorageServer]:
    """A server that has nothing itself, and sends everyone on."""
    with _serving(folder, folder, f"xrootd.redirect localhost:{to.port} /\n") as server:
        yield server


@contextmanager
def proxy_server(data: Path, folder: Path, authority: GridAuthority) -> Iterator[StorageServer]:
    """A server that lets in who shows a proxy that descends from this authority."""
    certificate, key = _host_files(authority, folder)
    security = _WITH_PROXIES.format(authorities=authority.directory, certificate=certificate, key=key)
    with _serving(data, folder, security) as server:
        yield server


@contextmanager
def token_server(data: Path, folder: Path, authority: GridAuthority, issuer: TokenIssuer) -> Iterator[StorageServer]:
    """A server, also of HTTPS, that gives a file to who shows a token of this issuer for it."""
    certificate, key = _host_files(authority, folder)
    issuers = folder / "scitokens.cfg"
    issuers.write_text(_ISSUERS.format(audience=AUDIENCE, issuer=issuer.url))
    security = _WITH_TOKENS.format(authorities=authority.directory, certificate=certificate, key=key, issuers=issuers)
    known = folder / "known"
    _remember_keys(known / "scitokens", issuer)
    with _serving(data, folder, security, XDG_CACHE_HOME=str(known)) as server:
        yield server


def _remember_keys(folder: Path, issuer: TokenIssuer) -> None:
    """As if the server had asked for the issuer's keys before: its libcurl trusts the machine's authorities alone."""
    folder.mkdir(parents=True)
    file = folder / "scitokens_cpp.sqllite"
    later = int(time.time() + DAY)
    kept = json.dumps({"jwks": issuer.key_set(), "expires": later, "next_update": later})
    with closing(sqlite3.connect(file)) as store, store:
        store.execute("CREATE TABLE keycache (issuer text UNIQUE PRIMARY KEY NOT NULL, keys text NOT NULL)")
        store.execute("INSERT INTO keycache VALUES (?, ?)", (issuer.url, kept))
    for path in (folder, file) if ROOT else ():
        shutil.chown(path, "nobody")


@contextmanager
def issuing(authority: GridAuthority, folder: Path) -> Iterator[TokenIssuer]:
    """An issuer of tokens whose keys are served over HTTPS, by a host that this authority vouches for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.host().write(folder, "issuer"))
    pages: dict[str, object] = {}

    class Pages(BaseHTTPRequestHandler):
        """Serves the two pages by which tokens are verified."""

        def do_GET(self) -> None:
            page = pages.get(self.path)
            content = json.dumps(page).encode()
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Not on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        issuer = TokenIssuer(f"https://localhost:{server.server_port}")
        pages |= {"/.well-known/openid-configuration": issuer.configuration(), "/jwks": issuer.key_set()}
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join(timeout=10)


@dataclass(frozen=True)
class ProtectedStorage:
    """The same files behind a server that asks for proxies and one that asks for tokens."""

    data: Path
    authority: GridAuthority
    issuer: TokenIssuer
    by_proxy: StorageServer
    by_token: StorageServer

    def surroundings(self, **variables: str | Path) -> dict[str, str]:
        """An environment with these variables, the authority, and no other credentials."""
        ours = {"X509_USER_PROXY", "X509_CERT_DIR", "BEARER_TOKEN", "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR"}
        others = {name: value for name, value in os.environ.items() if name not in ours}
        named = {"X509_CERT_DIR": self.authority.directory, **variables}
        return {**others, **{name: str(value) for name, value in named.items()}}


@contextmanager
def protected_storage() -> Iterator[ProtectedStorage]:
    """An empty folder behind two servers, in a place that their user can reach."""
    with tempfile.TemporaryDirectory(prefix="cenote-storage-") as name, ExitStack() as services:
        folder = Path(name)
        folder.chmod(0o755)
        for own in ("data", "proxies", "tokens"):
            (folder / own).mkdir()
        authority = GridAuthority(folder / "authority")
        data, tokens = folder / "data", folder / "tokens"
        issuer = services.enter_context(issuing(authority, tokens))
        by_proxy = services.enter_context(proxy_server(data, folder / "proxies", authority))
        by_token = services.enter_context(token_server(data, tokens, authority, issuer))
        yield ProtectedStorage(data, authority, issuer, by_proxy, by_token)


def _host_files(authority: GridAuthority, folder: Path) -> tuple[Path, Path]:
    certificate, key = authority.host().write(folder, "host")
    if ROOT:
        shutil.chown(key, "nobody")
    return certificate, key


@contextmanager
def _serving(data: Path, folder: Path, security: str, **environment: str) -> Iterator[StorageServer]:
    """XRootD refuses to run as root: `folder`, `data` and what is above must be open to others."""
    demand_client()
    program, libraries = _program()
    own = folder / "own"
    own.mkdir()
    own.chmod(0o777)
    port = free_port()
    settings, log = folder / "xrootd.cfg", folder / "xrootd.log"
    settings.write_text(_OPEN.format(port=port, data=data, own=own) + security)
    surroundings = {"LD_LIBRARY_PATH": libraries, "HOME": str(own), **environment}
    command = [program, "-c", str(settings)]
    with running(command, log=log, environment=surroundings, as_nobody=True) as process:
        wait_for(lambda: listens(port), process, log=log)
        yield StorageServer(port, log)


def _program() -> tuple[str, str]:
    """The program and where its libraries are: installed, or unpacked from Debian's packages."""
    if installed := shutil.which("xrootd"):
        return installed, os.environ.get("LD_LIBRARY_PATH", "")
    root = unpacked("xrootd", PACKAGES, with_needed=NEEDED)
    (libraries,) = {path.parent for path in root.glob("usr/lib/*/libXrdServer.so.*")}
    return str(root / "usr/bin/xrootd"), str(libraries)
