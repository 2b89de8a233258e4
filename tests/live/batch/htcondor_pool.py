"""A real HTCondor pool on this one machine: one slot that is divided among jobs, on loopback, gone with its folder.

Debian 12 has no HTCondor, so that of the next release is unpacked beside it with its own libraries, and only its
programs use them. HTCondor takes no jobs from root: root's pool runs in a user namespace that shows another account.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..conftest import ROOT, cannot_run, free_port, needs, running, succeeds
from ..debian_packages import KEYRING, unpacked
from .processes import kill, until, with_environment

SUITE = "trixie"
STANDS_FOR_ROOT = "www-data"
"""An account that every Debian has."""
PACKAGES = """
    condor patchelf libc6 libstdc++6 libgcc-s1 libgomp1 zlib1g libzstd1 libuuid1 libpcre2-8-0 libssl3t64 libexpat1
    libsqlite3-0 libscitokens0t64 libvomsapi1t64 libmunge2 libcom-err2 libgssapi-krb5-2 libk5crypto3 libkrb5-3
    libkrb5support0 libkeyutils1 libcurl4t64 libnghttp2-14 libnghttp3-9 libidn2-0 libunistring5 librtmp1 libssh2-1t64
    libpsl5t64 libldap2 libsasl2-2 libbrotli1 libgnutls30t64 libnettle8t64 libhogweed6t64 libgmp10 libp11-kit0
    libtasn1-6 libffi8
"""
CONFIGURATION = """
RELEASE_DIR = {release}
BIN = $(RELEASE_DIR)/bin
SBIN = $(RELEASE_DIR)/sbin
LIB = $(RELEASE_DIR)/lib
LIBEXEC = $(RELEASE_DIR)/libexec/condor
SHARE = $(RELEASE_DIR)/share/condor
LOCAL_DIR = {root}
LOG = $(LOCAL_DIR)/log
RUN = $(LOCAL_DIR)/run
LOCK = $(LOCAL_DIR)/lock
SPOOL = $(LOCAL_DIR)/spool
EXECUTE = $(LOCAL_DIR)/execute
ETC = $(LOCAL_DIR)
LOCAL_CONFIG_FILE =
LOCAL_CONFIG_DIR =
USER_CONFIG_FILE =

use ROLE: CentralManager, Submit, Execute
use POLICY: Always_Run_Jobs
use FEATURE: PartitionableSlot

CONDOR_HOST = 127.0.0.1
COLLECTOR_HOST = 127.0.0.1:{port}
SHARED_PORT_PORT = {port}
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = False
ENABLE_IPV6 = False
NO_DNS = True
DEFAULT_DOMAIN_NAME = localdomain
UID_DOMAIN = localdomain
FILESYSTEM_DOMAIN = localdomain
CONDOR_ADMIN =

# Whoever has the same account on this machine may do everything.
SEC_DEFAULT_AUTHENTICATION = REQUIRED
SEC_DEFAULT_AUTHENTICATION_METHODS = FS
SEC_DEFAULT_ENCRYPTION = OPTIONAL
SEC_DEFAULT_INTEGRITY = OPTIONAL
SEC_TOKEN_DIRECTORY = $(LOCAL_DIR)/tokens.d
SEC_TOKEN_SYSTEM_DIRECTORY = $(LOCAL_DIR)/tokens.d
SEC_PASSWORD_DIRECTORY = $(LOCAL_DIR)/passwords.d
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_DAEMON = *
ALLOW_NEGOTIATOR = *
ALLOW_ADMINISTRATOR = *

# The machine as jobs see it; nothing of this is enforced.
NUM_CPUS = 16
MEMORY = 512000
DISK = 100000000
MACHINE_RESOURCE_GPUs = GPU-a, GPU-b

# Matches are made at once and news travel every second or two.
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_MIN_INTERVAL = 0
NEGOTIATOR_CYCLE_DELAY = 0
SCHEDD_MIN_INTERVAL = 0
SCHEDD_INTERVAL = 1
UPDATE_INTERVAL = 2
POLLING_INTERVAL = 1
PERIODIC_EXPR_INTERVAL = 2
STARTER_INITIAL_UPDATE_INTERVAL = 1
STARTER_UPDATE_INTERVAL = 2
SHADOW_QUEUE_UPDATE_INTERVAL = 2
JOB_START_DELAY = 0
JOB_START_COUNT = 50
MachineMaxVacateTime = 10
KILLING_TIMEOUT = 5
# With none at all the starter crashes when it is asked what it can do (23.9), and no machine has file transfer.
FILETRANSFER_PLUGINS = $(LIBEXEC)/curl_plugin, $(LIBEXEC)/data_plugin
# It sends proxies and tokens along; a token is in place here before any job asks for it.
DELEGATE_JOB_GSI_CREDENTIALS = False
SEC_CREDENTIAL_DIRECTORY_OAUTH = $(LOCAL_DIR)/oauth
TRUST_CREDENTIAL_DIRECTORY = True
CREDD_OAUTH_MODE = True
DAEMON_LIST = $(DAEMON_LIST) CREDD
CREDD = $(SBIN)/condor_credd
# Not its usual port 9620, which only one of several pools of this machine could have.
CREDD_ARGS = -f
JAVA =
DOCKER =
SINGULARITY =
RUNBENCHMARKS = False
STARTD_CRON_AUTOPUBLISH = Never
"""
WRAPPER = """#!/bin/sh
export CONDOR_CONFIG={configuration}
exec {disguise} {program} "$@"
"""


class HTCondorPool:
    """The pool while it runs. Commands are in the folder `programs`."""

    strategy = "htcondor"

    def __init__(self, root: Path, release: Path) -> None:
        self.root = root
        self.release = release
        self.programs = root / "programs"

    def ask(self, *command: str, seconds: float = 20) -> str:
        """What one of HTCondor's commands prints."""
        program = self.programs / command[0]
        return subprocess.run(
            [str(program), *command[1:]],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        ).stdout

    def jobs(self, pool: str | None = None, status: int | None = None) -> list[str]:
        """Jobs in the queue: all, or those of a pool of ours, or those in a state (2 is running)."""
        text = self.ask(
            "condor_q", "-allusers", "-json", "-attributes", "ClusterId,ProcId,JobStatus,CenotePool"
        ).strip()
        ads: list[dict[str, Any]] = json.loads(text or "[]")
        return [
            f"{ad['ClusterId']}.{ad['ProcId']}"
            for ad in ads
            if pool in (None, ad.get("CenotePool")) and status in (None, ad["JobStatus"])
        ]

    def reset(self) -> None:
        """As it was in the beginning: no jobs, and a machine for them."""
        self.ask("condor_rm", "-all")
        self.wait_until_empty()
        if not self.machines():
            self.ask("condor_on", "-startd")
            until(lambda: self.machines() > 0, "a machine")

    def wait_until_empty(self, *, seconds: float = 180) -> None:
        """The queue has no jobs any more."""
        until(lambda: not self.jobs(), "the queue to become empty", seconds=seconds)

    def machines(self) -> int:
        """Machines that jobs can run on; one that has just begun does not know yet that it can transfer files."""
        ready = "PartitionableSlot && HasFileTransfer"
        return len(self.ask("condor_status", "-af", "Name", "-constraint", ready).split())

    def place_token(self, service: str, token: str) -> None:
        """As HTCondor's credential daemon would, once it has one from its issuer."""
        own = self.root / "oauth" / (STANDS_FOR_ROOT if ROOT else pwd.getpwuid(os.getuid()).pw_name)
        own.mkdir(parents=True, mode=0o700, exist_ok=True)
        for ending in ("top", "use"):
            (own / f"{service}.{ending}").touch(0o600)
            (own / f"{service}.{ending}").write_text(token)

    def occupy(self, **amounts: int) -> str:
        """Give so much of the machine to a job of somebody else, which runs when this returns."""
        wanted = [f"request_{name} = {amount}" for name, amount in amounts.items()]
        lines = ["executable = /bin/sleep", "arguments = 600", "transfer_executable = false", *wanted, "queue", ""]
        description = self.root / "other.sub"
        description.write_text("\n".join(lines))
        job = self.ask("condor_submit", "-terse", str(description)).split(" - ")[0].strip()
        until(lambda: job in self.jobs(status=2), "the other job to run")
        return job

    def last_words(self) -> str:
        """What its daemons said last."""
        logs = sorted((self.root / "log").glob("*Log"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-300:]}" for log in logs)

    def answers(self) -> bool:
        """Whether there is a machine and a queue."""
        return self.machines() > 0 and "Total" in self.ask("condor_q", "-totals")


@contextmanager
def htcondor_pool() -> Iterator[HTCondorPool]:
    """A pool of one's own, gone afterwards."""
    release = _installed() / "usr"
    root = Path(tempfile.mkdtemp(prefix="condor-"))
    root.chmod(0o755)
    for folder in ("log", "spool", "execute", "lock", "run", "tokens.d", "passwords.d", "programs"):
        (root / folder).mkdir()
    configuration = root / "condor_config"
    configuration.write_text(CONFIGURATION.format(release=release, root=root, port=free_port()))
    disguise = _disguise()
    pool = HTCondorPool(root, release)
    for program in (*release.glob("bin/condor_*"), *release.glob("sbin/condor_*")):
        wrapper = pool.programs / program.name
        wrapper.write_text(WRAPPER.format(configuration=configuration, disguise=" ".join(disguise), program=program))
        wrapper.chmod(0o755)
    master = [*disguise, str(release / "sbin" / "condor_master"), "-f"]
    try:
        with running(master, log=root / "master.log", environment={"CONDOR_CONFIG": str(configuration)}) as process:
            try:
                try:
                    until(pool.answers, "an answer")
                except TimeoutError as problem:
                    cannot_run(f"HTCondor does not start: {problem}\n{pool.last_words()}")
                yield pool
            finally:
                process.send_signal(signal.SIGQUIT)  # fast: running jobs are killed
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
    finally:
        kill(with_environment(CONDOR_CONFIG=str(configuration)))  # daemons whose master did not wait for them
        shutil.rmtree(root, ignore_errors=True)


def _disguise() -> list[str]:
    if not ROOT:
        return []
    account = pwd.getpwnam(STANDS_FOR_ROOT)
    unshare = needs("unshare", package="util-linux")
    return [unshare, "--user", f"--map-user={account.pw_uid}", f"--map-group={account.pw_gid}", "--"]


def _installed() -> Path:
    """The folder with HTCondor's files."""
    if platform.machine() != "x86_64" or not KEYRING.exists():
        cannot_run("HTCondor is unpacked from Debian packages for x86_64")
    return unpacked("htcondor", PACKAGES.split(), suite=SUITE, then=_use_own_libraries)


def _use_own_libraries(folder: Path) -> None:
    """Programs look for their libraries in the folder; jobs, which do not inherit that, use the machine's."""
    loader = folder / "usr/lib64/ld-linux-x86-64.so.2"
    libraries = f"{folder}/usr/lib/x86_64-linux-gnu:{folder}/usr/lib"
    patchelf = [str(loader), "--library-path", libraries, str(folder / "usr/bin/patchelf")]
    change = ["--set-interpreter", str(loader), "--force-rpath", "--set-rpath", libraries]
    for pattern in ("bin/condor_*", "bin/classad_*", "sbin/condor_*", "libexec/condor/*"):
        for program in (folder / "usr").glob(pattern):
            if program.is_file() and not program.is_symlink() and program.suffix != ".so" and _is_program(program):
                succeeds([*patchelf, *change, str(program)], seconds=60)


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
