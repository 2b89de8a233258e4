"""Bring programs from Debian packages, unpacked in a folder: nothing is installed, and root is not needed.

apt gets a memory of its own for that, so it does not matter what the machine's knows, or whether it knows anything.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from builders.machine_cache import made_once

from .conftest import cannot_run, complaint, succeeds

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ATTEMPTS = 3
"""Mirrors are renewed several times a day, and in between a list and what it names may not agree."""


def unpacked(
    name: str,
    packages: Sequence[str],
    *,
    with_needed: Sequence[str] = (),
    suite: str | None = None,
    then: Callable[[Path], None] | None = None,
) -> Path:
    """The folder with the files of these packages, made once for all tests of this machine.

    `with_needed` are beginnings of names: whatever the packages depend on and begins so comes too. The packages are
    those of the machine's release, or of another one, the `suite`. `then` finishes the folder, at its final place.
    """
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        cannot_run(f"{name} is unpacked from Debian packages, and this is not Debian")
    wanted = f"{suite}: {' '.join([*packages, *with_needed])}\n"

    def make(folder: Path) -> None:
        _download(packages, with_needed, suite, folder)
        for archive in sorted(folder.glob("*.deb")):
            succeeds(["dpkg", "-x", str(archive), str(folder)], seconds=120)
            archive.unlink()
        if then is not None:
            then(folder)

    try:
        return made_once(name, wanted, make)
    except PermissionError as problem:
        cannot_run(str(problem))


def _download(packages: Sequence[str], with_needed: Sequence[str], suite: str | None, folder: Path) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        with tempfile.TemporaryDirectory(prefix="apt-") as memory:
            try:
                options = _options(Path(memory), suite)
                names = _with_needed(packages, with_needed, options)
                _apt(["apt-get", *options, "download", *names], cwd=folder)
                return
            except subprocess.SubprocessError as problem:
                why = complaint(problem)
        time.sleep(attempt)
    cannot_run(f"{' '.join(packages[:3])} could not be downloaded in {ATTEMPTS} attempts; apt's last words: {why}")


def _options(memory: Path, suite: str | None) -> list[str]:
    """Options that give apt a memory of its own, filled with what this machine's mirrors have."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (memory / name).mkdir(parents=True)
    (memory / "status").touch()
    settings = {
        "Dir::State": memory / "state",
        "Dir::State::status": memory / "status",
        "Dir::Cache": memory / "cache",
        "APT::Sandbox::User": "",
        "Acquire::Retries": "3",
        "Acquire::Languages": "none",
        "APT::Update::Error-Mode": "any",  # else a mirror that cannot be reached is only a warning
    }
    if suite is not None:
        (memory / "sources.list").write_text(f"deb [signed-by={KEYRING}] {_mirror(memory)} {suite} main\n")
        settings |= {"Dir::Etc::sourcelist": memory / "sources.list", "Dir::Etc::sourceparts": "/dev/null"}
    options = ["-qq", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]
    _apt(["apt-get", *options, "update"])
    return options


def _mirror(memory: Path) -> str:
    """Where this machine gets its own release from; security updates come from elsewhere and have a `-` in theirs."""
    own = memory / "own"
    own.mkdir()
    targets = ["indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(RELEASE)"]
    known = [line.split() for line in _apt(["apt-get", *_options(own, None), *targets]).splitlines()]
    mirrors = [words[0] for words in known if words[1:2] == ["Debian"] and "-" not in words[2]]
    return mirrors[0] if mirrors else cannot_run("apt knows no mirror of Debian")


def _with_needed(packages: Sequence[str], beginnings: Sequence[str], options: Sequence[str]) -> list[str]:
    if not beginnings:
        return list(packages)
    skipped = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
    tree = _apt(["apt-cache", *options, "depends", "--recurse", *skipped, *packages])
    return sorted({line for line in tree.splitlines() if line.startswith(tuple(beginnings))} | {*packages})


def _apt(command: Sequence[str], *, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout
