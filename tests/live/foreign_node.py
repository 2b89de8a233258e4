"""A worker node that is not like this machine: the next Debian release, without Python, with a file system of its own.

Its programs are unpacked from Debian's packages. Commands run in it by a mount namespace that shows nothing of this
machine but the folders that are named; what they keep in `/var/tmp` stays from one command to the next.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .conftest import ROOT, cannot_run, needs
from .debian_packages import unpacked

SUITE = "trixie"
PACKAGES = """
    base-files bash dash coreutils tar zstd gzip util-linux grep sed findutils hostname mawk debianutils libc-bin zlib1g
"""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""A node has its own: that of this machine may name folders which only this machine has."""
CHROOT = 'exec chroot "$new"'
OWN_ROOT = "mkdir .old; pivot_root . .old; cd /; umount -l /.old; exec"
"""As containers want to find it; the node must have `umount`."""
LINKS = ("bin", "lib", "lib64", "sbin")
INSIDE = """#!/bin/sh
# Runs its words on the foreign node.
here=$PWD
exec {unshare} /bin/sh -c '
set -e
export PATH={path}
new={root}/mnt
mount -t tmpfs -o mode=755 none "$new"
cd "$new"
mkdir -p usr etc proc sys dev tmp root var/tmp
chmod 1777 tmp
for link in {links}; do ln -s "usr/$link" "$link"; done
for folder in usr etc; do mount --rbind {root}/$folder "$folder"; done
mount --bind /etc/hosts etc/hosts
for folder in proc sys dev; do mount --rbind "/$folder" "$folder"; done
mount --bind {kept} var/tmp
for folder in {shown}; do mkdir -p ".$folder"; mount --rbind "$folder" ".$folder"; done
here=$1; shift
{enter} /bin/sh -c "cd \\"\\$0\\" 2>/dev/null || cd /; exec \\"\\$@\\"" "$here" "$@"
' node "$here" {starts} "$@"
"""


@dataclass(frozen=True)
class ForeignNode:
    """A node; the same scripts may run in it at once."""

    root: Path
    kept: Path
    """Its `/var/tmp`: node-local, empty at first."""
    data: Path
    """A folder that it sees under the same path as this machine, as nodes see a store of data."""

    def script(
        self, path: Path, shown: Sequence[Path], *, own_users: bool = False, starts: str = "", enter: str = CHROOT
    ) -> Path:
        """Write a script that runs its words there, after those of `starts`; it sees these folders of this machine.

        With `own_users` it needs no rights here.
        """
        shares = ["--user", "--map-root-user", "--mount"] if own_users or not ROOT else ["--mount"]
        text = INSIDE.format(
            unshare=shlex.join([needs("unshare", package="util-linux"), *shares]),
            path=PATH,
            root=self.root,
            kept=self.kept,
            links=" ".join(LINKS),
            shown=" ".join(str(folder) for folder in (self.data, *shown)),
            starts=starts,
            enter=enter,
        )
        path.write_text(text)
        path.chmod(0o755)
        return path


def node_root() -> Path:
    """Its programs."""
    return unpacked("node", PACKAGES.split(), with_needed=["lib"], suite=SUITE, then=finish)


def foreign_node(folder: Path) -> ForeignNode:
    """A node whose own files are in this folder."""
    root = node_root()
    kept, data = folder / "var-tmp", folder / "data"
    for own in (kept, data):
        own.mkdir()
        own.chmod(0o1777)
    node = ForeignNode(root, kept, data)
    look = node.script(folder / "look.sh", [])
    question = "ls /var/tmp; command -v python3 || command -v perl || echo neither"
    seen = subprocess.run([look, "sh", "-c", question], capture_output=True, text=True, check=False)
    if seen.stdout != "neither\n":
        cannot_run(f"no mount namespace for a node: {seen.stdout}{seen.stderr}")
    return node


def finish(folder: Path) -> None:
    """What the packages' own scripts, which do not run, would write; and a place to put it all together."""
    (folder / "mnt").mkdir(exist_ok=True)
    (folder / "etc/hosts").touch()
    lines = {"root": (0, "/root"), "nobody": (65534, "/nonexistent"), "www-data": (33, "/var/www")}
    if os.geteuid() not in (0, 65534, 33):
        lines["user"] = (os.geteuid(), "/tmp")
    passwd = [f"{name}:x:{number}:{number}::{home}:/bin/sh" for name, (number, home) in lines.items()]
    (folder / "etc/passwd").write_text("\n".join(passwd) + "\n")
    (folder / "etc/group").write_text("".join(f"{name}:x:{number}:\n" for name, (number, _) in lines.items()))
