"""Install what a lock says into a folder: conda packages by py-rattler, wheels by uv, each in a process of its own."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from cenote.common import errors
from cenote.common.errors import Problem
from cenote.common.shell import ALONE, end_processes, start_process
from cenote.execution.environments.packed_pixi.lock import LockedEnvironment, LockedPackage, sha256_of
from cenote.execution.packing.archive import PackingStep, Progress
from cenote.execution.packing.prefixes.library_paths import PLACEHOLDER

# Take out of installed wheels where and when they were installed: the same lock gives the same files.


_ABOUT_HERE = ("direct_url.json", "uv_cache.json")
"""Which file it was installed from, and when that was written."""


def forget_where_installed(folder: Path) -> None:
    """Of all wheels that uv installed into a prefix."""
    (folder / ".lock").unlink(missing_ok=True)
    for record in sorted(folder.glob("lib/python3*/site-packages/*.dist-info/RECORD")):
        if (record.parent / "INSTALLER").exists() and (record.parent / "INSTALLER").read_text().strip() == "uv":
            for name in _ABOUT_HERE:
                (record.parent / name).unlink(missing_ok=True)
            _replace(record, "".join(_lines(record, folder)))


def _lines(record: Path, folder: Path) -> Iterator[str]:
    """Of a RECORD: without what is gone, and without hashes of scripts, which change wherever they are unpacked."""
    programs = folder / "bin"
    for path, *facts in csv.reader(record.read_text().splitlines()):
        located = Path(record.parent.parent, path).resolve()
        if path.rpartition("/")[2] in _ABOUT_HERE and located.parent == record.parent:
            continue
        if located.parent == programs.resolve():
            _point_to_placeholder(located, programs)
            facts = ["", ""]
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow([path, *facts])
        yield line.getvalue()


def _point_to_placeholder(script: Path, programs: Path) -> None:
    """In the form for long paths, however long the path of this folder is."""
    first, _, rest = script.read_bytes().partition(b"\n")
    here = f"{programs}/".encode()
    if first.startswith(b"#!" + here):
        python = first.removeprefix(b"#!" + here)
    elif first == b"#!/bin/sh" and rest.startswith(b"'''exec' ") and here in rest.partition(b"\n")[0]:
        command, _, rest = rest.partition(b"\n")
        python = command.partition(here)[2].split(b'"')[0].split(b"'")[0].split(b" ")[0]
        _, _, rest = rest.partition(b"\n")  # the line that closes the quotes
    else:
        return
    start = b"#!/bin/sh\n'''exec' \"%s/bin/%s\" \"$0\" \"$@\" #'''\n" % (PLACEHOLDER.encode(), python)
    mode = script.stat().st_mode
    _replace(script, start + rest)
    script.chmod(mode)


def _replace(file: Path, content: bytes | str) -> None:
    """Never by writing into it: the file may be one with that of a cache."""
    file.unlink()
    file.write_bytes(content.encode() if isinstance(content, str) else content)


_POLL_SECONDS = 0.05
_MOST_LINES = 6
_FULL = ("No space left on device", "Disk quota exceeded")
_NEEDED = {"rattler": "py-rattler", "uv": "uv"}


def missing_packages() -> list[Problem]:
    """What must be installed here before anything can be packed."""
    missing = [package for module, package in _NEEDED.items() if find_spec(module) is None]
    if not missing:
        return []
    what = f"the environment 'packed-pixi' needs packages that are not installed: {', '.join(missing)}"
    return [Problem(errors.ENVIRONMENT, what, hint="pip install 'cenote[environments]'")]


def install(locked: LockedEnvironment, folder: Path, progress: Progress) -> None:
    """Fill an empty folder. Files that name their prefix name the placeholder."""
    check_local_files([*locked.conda, *locked.wheels], locked.lock)
    _install_conda(locked, folder, progress)
    if locked.wheels:
        _install_wheels(locked, folder, progress)
        forget_where_installed(folder)


def check_local_files(packages: Iterable[LockedPackage], lock: Path) -> None:
    """Compare files of this machine with the lock: py-rattler (0.28) checks only what it downloads."""
    for package in packages:
        if (file := package.local_file) is None:
            continue
        if not file.is_file():
            raise errors.error(errors.BAD_ENVIRONMENT, f"{lock}: there is no {file}, the package '{package.name}'")
        if (found := sha256_of(file)) != package.sha256:
            raise errors.error(
                errors.BAD_ENVIRONMENT,
                f"{file} is not the package '{package.name}' that {lock} names: its SHA-256 is another one",
                details=(f"locked: {package.sha256}", f"found:  {found}"),
                hint="`pixi lock` writes the lock anew, if the file is right",
            )


def package_cache() -> Path:
    """Where pixi keeps packages of this user, so that nothing is fetched twice."""
    return _pixi_cache() / "pkgs"


def _pixi_cache() -> Path:
    for name in ("PIXI_CACHE_DIR", "RATTLER_CACHE_DIR"):
        if written := os.environ.get(name):
            return Path(written).expanduser().absolute()
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return usual / "pixi" if "XDG_CACHE_HOME" in os.environ and (usual / "pixi").is_dir() else usual / "rattler/cache"


def _wheel_cache() -> dict[str, str]:
    """The variable that makes uv use what pixi fetched, if that is here."""
    kept = _pixi_cache() / "uv-cache"
    return {} if "UV_CACHE_DIR" in os.environ or not kept.is_dir() else {"UV_CACHE_DIR": str(kept)}


def _install_conda(locked: LockedEnvironment, folder: Path, progress: Progress) -> None:
    request = {
        "lock": str(locked.lock),
        "environment": locked.name,
        "platform": locked.platform,
        "folder": str(folder),
        "placeholder": PLACEHOLDER,
        "cache": str(package_cache()),
    }
    sizes = {package.name: package.size or 0 for package in locked.conda}
    step = PackingStep("", 0, sum(sizes.values()) or None)
    count = 0

    def heard(line: str) -> None:
        nonlocal step, count
        count += 1
        words = f"installing packages: {count} of {len(sizes)}"
        step = replace(step, what=words, done=step.done + sizes.get(line, 0))
        progress(step)

    progress(replace(step, what=f"installing packages: 0 of {len(sizes)}"))
    command = [sys.executable, *ALONE, "-m", "cenote.execution.environments.packed_pixi.link", json.dumps(request)]
    if said := _run(command, heard):
        raise _refused("conda packages", locked, said)


def _install_wheels(locked: LockedEnvironment, folder: Path, progress: Progress) -> None:
    progress(PackingStep(f"installing wheels: {len(locked.wheels)}"))
    with tempfile.TemporaryDirectory() as scratch:
        listing = Path(scratch, "wheels.txt")
        lines = [f"{one.name} @ {one.location} --hash=sha256:{one.sha256}\n" for one in locked.wheels]
        listing.write_text("".join(lines))
        command = [
            *(sys.executable, *ALONE, "-m", "uv", "pip", "install", "--quiet", "--no-config", "--color", "never"),
            *("--no-index", "--no-deps", "--no-build", "--require-hashes", "--break-system-packages"),
            *("--python", str(folder / "bin" / "python"), "--prefix", str(folder), "--requirements", str(listing)),
        ]
        if said := _run(command, lambda _: None, variables=_wheel_cache()):
            raise _refused("wheels", locked, said)


def _refused(what: str, locked: LockedEnvironment, said: Sequence[str]) -> errors.CenoteError:
    first, *causes = said
    if full := [line for line in said if any(words in line for words in _FULL)]:
        return errors.error(
            errors.DISK_FULL,
            f"the {what} of {locked.lock} cannot be installed: {full[0]}",
            hint="`cenote env clean` removes old archives, and CENOTE_CACHE names another folder for them",
        )
    wrong_hash = any("hash mismatch" in line.lower() for line in said)
    return errors.error(
        errors.BAD_ENVIRONMENT,
        f"the {what} of {locked.lock} cannot be installed: {first}",
        details=causes[:_MOST_LINES],
        hint="what was fetched is not what was locked; if it is right, `pixi lock` writes the lock anew"
        if wrong_hash
        else "what pixi fetched on this machine before needs no network",
    )


def _run(
    command: Sequence[str], heard: Callable[[str], None], *, variables: dict[str, str] | None = None
) -> tuple[str, ...]:
    """Run a program to its end, hearing each line that it writes; what it says where it fails, else nothing."""
    quiet = {"PYTHONDONTWRITEBYTECODE": "1", **(variables or {})}
    with tempfile.TemporaryDirectory() as scratch:
        out, err = Path(scratch, "out"), Path(scratch, "err")
        process = start_process(command, variables=quiet, stdout=out, stderr=err)
        try:
            with out.open() as lines:
                ended = False
                while not ended:
                    ended = process.poll() is not None
                    for line in lines:
                        heard(line.rstrip("\n"))
                    time.sleep(0 if ended else _POLL_SECONDS)
        except BaseException:
            end_processes([process], patience=1.0)
            raise
        if process.returncode == 0:
            return ()
        said = [_shown(line) for line in err.read_text(errors="replace").splitlines()]
        return tuple(line for line in said if line) or (f"it ended with code {process.returncode}",)


def _shown(line: str) -> str:
    """A line that a program said, without what it says before every line, and without what is secret in addresses."""
    plain = re.sub(r"^(error|cause|Caused by): ", "", line.strip())
    plain = re.sub(r"://[^/@\s]+@", "://", re.sub(r"/t/[^/\s]+/", "/t/***/", plain))
    return "" if plain.startswith("failed to interact with the package cache") else plain
