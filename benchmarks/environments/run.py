"""Measure packed environments against conda-pack and tar.gz: pack, size, extract, relocate, start of a worker.

    python benchmarks/environments/run.py [--rounds 3] [--everything] [--json FILE]

All of them pack the same packages, installed by py-rattler and uv from one lock; `--everything` adds the wheels that
workers seldom need, such as pyarrow. conda-pack is installed from PyPI into an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import dask.config
from distributed import SpecCluster

from cenote.common.certificates.authority import identities_of
from cenote.execution.backends.dask.doors import NO_PAGES, RunSecurity, SecuredScheduler
from cenote.execution.environments.packed_conda import PackedConda
from cenote.execution.environments.packed_pixi import PackedPixi
from cenote.execution.environments.packed_pixi.lock import read_environment
from cenote.execution.environments.support.packed import PackedEnvironment
from cenote.execution.packing.archive import Archive, unheard
from cenote.execution.packing.code import CODE
from cenote.execution.packing.stock import Stock

TESTS = Path(__file__).parents[2] / "tests"
sys.path.insert(0, str(TESTS))

from builders.conda_channel import PixiProject, worker_project  # noqa: E402
from builders.conda_prefix import python_prefix  # noqa: E402
from builders.machine_cache import made_once  # noqa: E402
from builders.wheels import wheels_needed_by  # noqa: E402

MOST_SECONDS = 1.5
"""The goal: from the extracted environment to a worker that has joined."""
LOOPBACK, WORKER = "127.0.0.1", "cenote.execution.backends.dask.worker"
CONDA_PACK = "conda-pack"


@dataclass(frozen=True)
class Measured:
    """One round of one way."""

    pack: float
    size: float
    """Megabytes."""
    extract: float
    relocate: float
    start: float
    """Of the first worker, after all that is done."""


def main() -> None:
    """Take turns, and print medians and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--everything", action="store_true")
    parser.add_argument("--json", type=Path, default=None)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="cenote-benchmark-") as folder:
        found = measure(Path(folder), rounds=asked.rounds, everything=asked.everything)
    show(found)
    if asked.json is not None:
        rounds = {name: [asdict(one) for one in several] for name, several in found.items()}
        asked.json.write_text(json.dumps(rounds, indent=1), encoding="utf-8")


def measure(folder: Path, *, rounds: int, everything: bool) -> dict[str, list[Measured]]:
    """Of each way, all rounds. Packages are in the caches of py-rattler and uv."""
    project = worker_project(folder / "project")
    if everything:
        project.add_wheels(more_wheels(project.lock.read_text()))
    plain, compiled = installed(project, folder / "plain"), installed(project, folder / "compiled")
    files = [file for file in plain.rglob("*") if file.is_file() and not file.is_symlink()]
    print(f"an environment of {sum(file.stat().st_size for file in files) / 1e6:.0f} MB in {len(files)} files")
    os.environ["CENOTE_CACHE"] = str(folder / "cache")
    code = code_of_cenote(folder / "code")
    ways: Mapping[str, Callable[[Path], Measured]] = {
        "packed-pixi": lambda place: ours(PackedPixi(manifest=str(project.manifest)), place, code),
        "packed-conda": lambda place: ours(PackedConda(prefix=str(plain)), place, code),
        CONDA_PACK: lambda place: theirs(plain, place, code),
        f"compileall, {CONDA_PACK}": lambda place: theirs(compiled, place, code, compiles=True),
    }
    found: dict[str, list[Measured]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            place = Path(tempfile.mkdtemp(dir=folder))
            found[name].append(way(place))
            shutil.rmtree(place)
            print(_row(name, found[name][-1]), flush=True)
    return found


def installed(project: PixiProject, prefix: Path) -> Path:
    """The environment as pixi would leave it: without bytecode."""
    link = [sys.executable, "-m", "builders.install_prefix", str(project.lock), "default", str(prefix)]
    subprocess.run(link, check=True, cwd=TESTS)
    listing = prefix.with_suffix(".txt")
    locked = read_environment(project.lock, environment="default", platform="linux-64")
    listing.write_text("".join(f"{one.name} @ {one.location}\n" for one in locked.wheels))
    words = [
        "--quiet",
        "--no-config",
        "--no-index",
        "--no-deps",
        "--prefix",
        str(prefix),
        "--requirements",
        str(listing),
    ]
    run([sys.executable, "-m", "uv", "pip", "install", "--python", str(prefix / "bin/python"), *words])
    return prefix


def more_wheels(locked: str) -> list[Path]:
    """Of all that this installation of Cenote needs anywhere."""

    def make(folder: Path) -> None:
        wheels_needed_by("cenote", folder, extras=["dask", "environments", "xrootd"])

    made = made_once("benchmark-wheels", sys.prefix, make)
    return [wheel for wheel in sorted(made.glob("*.whl")) if f"/{wheel.name}" not in locked]


def ours(environment: PackedEnvironment, place: Path, code: Path) -> Measured:
    """Pack what the stock lacks, and unpack it as nodes do. The code of Cenote, an archive of its own, is there."""
    pack = timed(lambda: environment.prepare(unheard))
    (archive,) = _archives(lambda kind: kind != CODE)
    prefix = place / "environment"
    prefix.mkdir()
    extract = timed(lambda: _unpack(archive, prefix))
    relocate = [str(prefix / "bin/python"), "-I", "-S", "-B", ".cenote/relocate.py", str(prefix)]
    moved = timed(lambda: run(relocate, folder=prefix))
    for file in Stock().folder.glob(f"packed-*{archive.digest}*"):
        file.unlink()
    return Measured(pack, archive.size / 1e6, extract, moved, _start(prefix, code, place))


def theirs(installed: Path, place: Path, code: Path, *, compiles: bool = False) -> Measured:
    """Pack with all cores, as we do: its default is one. What pixi installs has no bytecode, which we pack too."""
    archive, prefix, program = place / "environment.tar.gz", place / "environment", conda_pack()
    words = ["--prefix", str(installed), "--output", str(archive), "--n-threads", "-1", "--quiet"]
    pack = timed(lambda: _compile(installed)) if compiles else 0.0
    pack += timed(lambda: run([str(program), *words]))
    prefix.mkdir()
    extract = timed(lambda: run(["tar", "-xzf", str(archive), "-C", str(prefix)]))
    moved = timed(lambda: run([str(prefix / "bin/python"), str(prefix / "bin/conda-unpack")]))
    return Measured(pack, archive.stat().st_size / 1e6, extract, moved, _start(prefix, code, place))


def _compile(prefix: Path) -> None:
    """Anew; what is no Python of this version does not matter."""
    run([str(prefix / "bin/python"), "-m", "compileall", "-qq", "-f", "-j0", str(prefix / "lib")], fails=True)


def code_of_cenote(folder: Path) -> Path:
    """Unpacked, with bytecode: what every worker imports here."""
    PackedConda(prefix=str(python_prefix())).prepare(unheard)
    (archive,) = _archives(lambda kind: kind == CODE)
    for file in Stock().folder.glob("packed-*"):
        file.unlink()
    folder.mkdir()
    _unpack(archive, folder)
    return folder


def conda_pack() -> Path:
    """The program, from PyPI."""

    def make(folder: Path) -> None:
        run([sys.executable, "-m", "venv", str(folder / "venv")])
        run([str(folder / "venv/bin/pip"), "install", "--quiet", "conda-pack", "setuptools"])

    return made_once("benchmark-conda-pack", sys.base_prefix, make) / "venv/bin/conda-pack"


def _archives(wanted: Callable[[str], bool]) -> list[Archive]:
    """Those of the stock that are still there, by their kind."""
    found = [Stock().archive(record) for record in Stock().records() if wanted(record.kind)]
    return [archive for archive in found if archive.file.exists()]


def _unpack(archive: Archive, folder: Path) -> None:
    run(["/bin/sh", "-c", f'{archive.compression} -dc "$0" | tar -xof - -C "$1"', str(archive.file), str(folder)])


def _start(prefix: Path, code: Path, place: Path) -> float:
    """Seconds until a worker of this environment has joined; the scheduler is there already."""
    with _scheduler(place) as (cluster, identity):
        began = time.perf_counter()
        words = ["--identity", identity, "--scheduler", cluster.scheduler.address, "--name", "w", "--pool", "default"]
        worker = subprocess.Popen(
            [str(prefix / "bin/python"), "-P", "-m", WORKER, *words, "--log", str(place / "log")],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(code), "PYTHONNOUSERSITE": "1"},
        )
        try:
            while not cluster.scheduler.workers:
                time.sleep(0.005)
                if worker.poll() is not None:
                    raise SystemExit(f"the worker ended with code {worker.returncode}")
            return time.perf_counter() - began
        finally:
            worker.terminate()
            worker.wait()


@contextmanager
def _scheduler(place: Path) -> Iterator[tuple[SpecCluster, str]]:
    dask.config.set(NO_PAGES)
    logging.getLogger("distributed").setLevel(logging.WARNING)
    identities = identities_of("benchmark")
    file = place / "identity" / "run.pem"
    identities.workers.write(file)
    security = RunSecurity(identities.driver)
    options = {"host": LOOPBACK, "port": 0, "dashboard": False, "security": security}
    scheduler = {"cls": SecuredScheduler, "options": {**options, "local_directory": str(place)}}
    with SpecCluster(workers={}, scheduler=scheduler, security=security) as cluster:
        yield cluster, str(file)


def timed(act: Callable[[], object]) -> float:
    """Seconds."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def run(command: list[str], *, folder: Path | None = None, fails: bool = False) -> None:
    """Run a program to its end; a failure ends this one, unless it does not matter."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0 and not fails:
        raise SystemExit(f"{' '.join(command)}: {done.stderr or done.stdout}")


def _row(name: str, one: Measured) -> str:
    return f"{name:24}" + "".join(f"{value:>11.2f}" for value in asdict(one).values())


def show(found: Mapping[str, list[Measured]]) -> None:
    """Medians, and how many times as much conda-pack takes: ratios are taken within a round."""
    columns = [field.name for field in fields(Measured)]
    print(f"{'medians':24}" + "".join(f"{name:>11}" for name in columns))
    for name, rounds in found.items():
        print(_row(name, Measured(*(statistics.median(getattr(one, column) for one in rounds) for column in columns))))
    for name in found:
        if CONDA_PACK in name:
            for mine in ("packed-pixi", "packed-conda"):
                pairs = list(zip(found[name], found[mine], strict=True))
                ratios = [statistics.median(getattr(a, one) / getattr(b, one) for a, b in pairs) for one in columns]
                print(f"{name} / {mine}: " + ", ".join(f"{c} {r:.2f} ×" for c, r in zip(columns, ratios, strict=True)))
    start = statistics.median(one.start for one in found["packed-pixi"])
    print(f"start of a worker: {start:.2f} s (goal: at most {MOST_SECONDS} s)")


if __name__ == "__main__":
    main()
