"""A real Slurm cluster on this one machine: controller and nodes, on loopback, in a folder that goes with it.

Its programs are unpacked from Debian's packages and told where their libraries are; no service is installed.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ..conftest import cannot_run, running
from ..debian_packages import unpacked
from ..foreign_node import ForeignNode
from .processes import kill, name, parent, until, with_environment

PACKAGES = """
    munge libmunge2 slurm-client slurm-wlm-basic-plugins slurmctld slurmd libhwloc15 libnuma1
"""

NODES = ("cpu1", "cpu2", "cpu3", "cpu4", "big1", "big2", "gpu1")
_USABLE = ("idle", "mixed", "allocated", "completing", "planned")

CONFIGURATION = """
ClusterName=cenote
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={root}/munge.sock
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny

PluginDir={plugins}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid

# Nothing of the machine is touched: no cgroups, no pinning, no database, no mail.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none

# Nodes have what is written here, whatever the machine has.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=1024
GresTypes=gpu

# Jobs start at once, and a node that is silent is given up soon.
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1,bf_resolution=1
PriorityType=priority/basic
CompleteWait=0
KillWait=5
UnkillableStepTimeout=30
SlurmdTimeout=10
ReturnToService=1
MinJobAge=600
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE

NodeName=cpu[1-4] NodeHostname={host} NodeAddr=127.0.0.1 Port={cpu} CPUs=2 RealMemory=16384 Weight=1
NodeName=big[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port={big} CPUs=2 RealMemory=262144 Weight=2
NodeName=gpu1 NodeHostname={host} NodeAddr=127.0.0.1 Port={gpu} CPUs=2 RealMemory=16384 Gres=gpu:1 Weight=3
NodeName=dead1 NodeHostname={host} NodeAddr=127.0.0.1 Port={dead} CPUs=2 RealMemory=16384 State=DOWN

PartitionName=main Nodes=cpu[1-4],big[1-2],gpu1 Default=YES PriorityTier=1
PartitionName=urgent Nodes=cpu[1-4],big[1-2],gpu1 PriorityTier=100 PreemptMode=OFF
PartitionName=dead Nodes=dead1
"""
# A GPU that is only counted makes the node invalid (Slurm 22.05): it needs a file, and any device will do.
GPUS = "AutoDetect=off\nNodeName=gpu1 Name=gpu File=/dev/null\n"
WRAPPER = """#!/bin/sh
export LD_LIBRARY_PATH={libraries}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
exec {program} "$@"
"""


class SlurmCluster:
    """The cluster while it runs. Commands are in the folder `programs` and find it by SLURM_CONF."""

    strategy = "slurm"

    def __init__(self, root: Path, port: int, daemons: ExitStack, *, on_nodes: tuple[str, ...] = ()) -> None:
        self.root, self.port = root, port
        self._daemons, self._on_nodes = daemons, on_nodes
        self._nodes: dict[str, ExitStack] = {}
        self.configuration = root / "slurm.conf"
        self.programs = root / "programs"

    @property
    def environment(self) -> dict[str, str]:
        """What commands need to find it."""
        return {"SLURM_CONF": str(self.configuration), "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}"}

    def ask(self, *command: str, seconds: float = 20) -> str:
        """What one of Slurm's commands prints."""
        return subprocess.run(
            command,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        ).stdout

    def queue(self) -> list[str]:
        """Jobs that wait, run or end just now."""
        return self.ask("squeue", "--noheader", "--array", "--format=%i %j %T %N").splitlines()

    def jobs(self, pool: str, state: str = "RUNNING") -> list[tuple[str, str]]:
        """The jobs of a pool that are in this state, with their nodes."""
        lines = self.ask("squeue", "--noheader", "--array", f"--states={state}", "--format=%i|%N|%k").splitlines()
        found = [line.split("|") for line in lines]
        return [(job, node) for job, node, comment in found if f"pool={pool}" in comment.split()]

    def wait_until_empty(self, *, seconds: float = 180) -> None:
        """The queue has no jobs any more."""
        until(lambda: not self.queue(), "the queue to become empty", seconds=seconds)

    def reset(self) -> None:
        """As it was in the beginning: no jobs, every node usable."""
        self.ask("scancel", f"--user={getpass.getuser()}")
        self.wait_until_empty()
        for node in NODES:
            if node not in self._nodes:
                self._start_node(node)
            if self._state(node).startswith(("down", "drain", "fail")):
                self.ask("scontrol", "update", f"nodename={node}", "state=resume")
        until(lambda: all(self._state(node).rstrip("*") in _USABLE for node in NODES), "nodes to be usable")

    def lose(self, node: str) -> None:
        """The node is gone without a word, and Slurm knows it."""
        self._nodes.pop(node).close()
        self._kill_jobs(node)
        self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=crashed")

    def last_words(self) -> str:
        """What its daemons said last."""
        logs = sorted((*self.root.glob("*.log"), *self.root.glob("*.out")))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-300:]}" for log in logs)

    def _state(self, node: str) -> str:
        return (self.ask("sinfo", "--noheader", "-N", f"--nodes={node}", "--format=%T").splitlines() or [""])[0]

    def _start_node(self, node: str) -> None:
        daemon = ExitStack()
        self._nodes[node] = daemon
        command = [
            *self._on_nodes,
            str(self.programs / "slurmd"),
            "-D",
            "-N",
            node,
            "-d",
            str(self.programs / "slurmstepd"),
        ]
        daemon.enter_context(running(command, log=self.root / f"{node}.log", environment=self.environment))

    def start(self) -> None:
        """Start every daemon and wait until jobs can run."""
        key = self.root / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        files = {"key-file": key, "socket": "munge.sock", "pid-file": "munge.pid", "seed-file": "munge.seed"}
        munge = [str(self.programs / "munged"), "--foreground", "--force", "--num-threads=2"]
        munge += [f"--{option}={self.root / file}" for option, file in files.items()]
        self._daemons.enter_context(running(munge, log=self.root / "munge.out"))
        until(lambda: (self.root / "munge.sock").exists(), "munge")
        controller = [str(self.programs / "slurmctld"), "-D", "-c", "-i"]
        self._daemons.enter_context(running(controller, log=self.root / "controller.log", environment=self.environment))
        until(lambda: "main" in self.ask("sinfo", "--noheader"), "the controller")
        self.reset()

    def stop(self) -> None:
        """Everything is gone afterwards."""
        self.ask("scancel", f"--user={getpass.getuser()}")
        with suppress(TimeoutError):
            self.wait_until_empty(seconds=10)
        for node, daemon in self._nodes.items():
            daemon.close()
            self._kill_jobs(node)

    def _kill_jobs(self, node: str) -> None:
        """Processes of jobs on a node; first those that would report their end."""
        jobs = with_environment(SLURM_CONF=str(self.configuration), SLURMD_NODENAME=node)
        kill(process for process in {parent(job) for job in jobs} if name(process).startswith("slurmstepd"))
        kill(jobs)


@contextmanager
def slurm_cluster(node: ForeignNode | None = None) -> Iterator[SlurmCluster]:
    """A cluster of one's own, gone afterwards. Its nodes are this machine, or all of them are this foreign one."""
    release = unpacked("slurm", PACKAGES.split(), then=_give_plain_names) / "usr"
    root = Path(tempfile.mkdtemp(prefix="slurm-"))  # short: sockets live in it
    root.chmod(0o755)
    for folder in ("state", "programs", *(f"spool/{node}" for node in NODES)):
        (root / folder).mkdir(parents=True)
    (libraries,) = release.glob("lib/*-linux-gnu")
    for program in (*release.glob("bin/*"), *release.glob("sbin/*")):
        wrapper = root / "programs" / program.name
        wrapper.write_text(WRAPPER.format(libraries=f"{libraries}:{libraries}/slurm-wlm", program=program))
        wrapper.chmod(0o755)
    try:
        with ExitStack() as daemons:
            port = _configure(root, libraries, daemons)
            on_nodes = (str(node.script(root / "on_node", [root, release.parent])),) if node else ()
            cluster = SlurmCluster(root, port, daemons, on_nodes=on_nodes)
            try:
                try:
                    cluster.start()
                except TimeoutError as problem:
                    cannot_run(f"Slurm does not start: {problem}\n{cluster.last_words()}")
                yield cluster
            finally:
                cluster.stop()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _configure(root: Path, libraries: Path, held: ExitStack) -> int:
    """Write its files; the controller's port."""
    port = _free_ports(1 + len(NODES) + 1, held)
    text = CONFIGURATION.format(
        host=socket.gethostname().split(".")[0],
        port=port,
        plugins=libraries / "slurm-wlm",
        user=getpass.getuser(),
        root=root,
        cpu=f"{port + 1}-{port + 4}",
        big=f"{port + 5}-{port + 6}",
        gpu=port + 7,
        dead=port + 8,
    )
    (root / "slurm.conf").write_text(text)
    (root / "gres.conf").write_text(GPUS)
    return port


def _give_plain_names(folder: Path) -> None:
    """Slurm's daemons know by their own names what they are, and Debian calls the files otherwise."""
    for program in folder.glob("usr/sbin/*-wlm"):
        program.with_name(program.name.removesuffix("-wlm")).symlink_to(program.name)


def _free_ports(count: int, held: ExitStack) -> int:
    """The first of so many neighbouring ports that nobody listens on, nor will a cluster that just starts."""
    for first in range(20000, 30000, count):
        path = Path(tempfile.gettempdir(), f"cenote-slurm-{first}.lock")
        with suppress(OSError):  # another cluster's
            lock = held.enter_context(path.open("w"))  # held as long as the daemons run
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if all(_is_free(first + offset) for offset in range(count)):
                return first
    return cannot_run(f"there are no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
