"""An environment of pixi is packed from its lock, unpacked elsewhere, and works there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from builders.conda_channel import Lock, PixiProject, pixi_project, small_channel
from builders.file_servers import FileServer
from cenote.common.errors import CenoteError
from cenote.common.shell import run_command
from cenote.execution.environments.packed_pixi import PackedPixi
from cenote.execution.environments.packed_pixi.install import install, package_cache
from cenote.execution.environments.packed_pixi.lock import read_environment
from cenote.execution.launch import words
from cenote.execution.packing.archive import PackingStep, Progress, unheard
from cenote.testing.launches import a_launch

MOST_SECONDS = 120.0


@pytest.fixture(scope="module", autouse=True)
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Those of pixi, uv and this program, for the tests here."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("CENOTE_CACHE", "PIXI_CACHE_DIR", "UV_CACHE_DIR"):
            patch.setenv(variable, str(tmp_path_factory.mktemp(variable.lower())))
        yield


@pytest.fixture
def project(tmp_path: Path) -> PixiProject:
    return pixi_project(tmp_path / "project")


def with_script(project: PixiProject) -> PixiProject:
    """With one more step in its activation."""
    (project.folder / "activate.sh").write_text('export FROM_SCRIPT="$CONDA_PREFIX/share"\n')
    activation = '[activation]\nscripts = ["activate.sh"]\n[activation.env]'
    project.manifest.write_text(project.manifest.read_text().replace("[activation.env]", activation))
    return project


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> PackedPixi:
    """One that all tests may unpack; what is unpacked is kept in its `scratch`."""
    folder = tmp_path_factory.mktemp("packed")
    project = with_script(pixi_project(folder / "project"))
    made = PackedPixi(scratch=str(folder / "scratch"), variables={"OMP_NUM_THREADS": "1"}).beside(project.folder)
    assert list(made.check()) == []
    made.prepare(unheard)
    return made


def on_node(environment: PackedPixi, *command: str) -> str:
    """What a program of the environment prints, started as a worker would be."""
    launch = environment.complete(a_launch("python3", *command[1:]))
    if command[0] != "python":
        launch = replace(launch, interpreter=words(command[0]))
    started, variables = launch.here("worker-1")
    assert not {"PATH", "PYTHONPATH", "CONDA_PREFIX"} & variables.keys()
    done = run_command(
        ["env", "-i", "PYTHONPATH=/leaked", "PATH=/leaked:/bin:/usr/bin", *started], seconds=MOST_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_its_python_and_its_programs_run_elsewhere(packed: PackedPixi) -> None:
    code = "import sys, sysconfig, json, hello, greeting; print(sys.prefix, sysconfig.get_config_var('prefix'))"
    prefix, configured = on_node(packed, "python", "-c", code).split()
    assert prefix == configured
    assert str(packed.scratch) in prefix
    assert on_node(packed, "greet") == "good day"
    assert on_node(packed, "say-hello") == "hello"
    assert (Path(prefix) / "share" / "activated.txt").read_text() == f"data = {prefix}/share/data\n"
    assert f"{prefix}/share/table\0".encode() in (Path(prefix) / "share" / "compiled.bin").read_bytes()
    assert b"placeholder" not in (Path(prefix) / "lib" / "libcompiled.so").read_bytes()


def test_it_is_activated_as_pixi_would(packed: PackedPixi) -> None:
    names = ("ACTIVATED", "FROM_SCRIPT", "ANALYSIS", "CONDA_PREFIX", "PIXI_ENVIRONMENT_NAME", "OMP_NUM_THREADS", "PATH")
    code = f"import json, os, sys; print(json.dumps([sys.prefix, *map(os.environ.get, {names})]))"
    prefix, *values = json.loads(on_node(packed, "python", "-c", code))
    *values, path = values
    assert values == [f"{prefix}/share", f"{prefix}/share", "from the manifest", prefix, "default", "1"]
    assert path.startswith(f"{prefix}/bin:")
    assert "leaked" not in path


def test_it_starts_with_bytecode(packed: PackedPixi) -> None:
    code = "import hello, json.decoder as j, os; print(os.path.exists(hello.__cached__), os.path.exists(j.__cached__))"
    assert on_node(packed, "python", "-c", code) == "True True"


def test_what_it_is_stands_in_the_record(packed: PackedPixi) -> None:
    found = packed.describe()
    assert found["environment"] == "default"
    assert found["platform"] == "linux-64"
    assert len(found["lock_sha256"]) == len(found["digest"]) == 64
    assert {"python", "greeting", "hello", "compiled"} <= found["packages"].keys()


def test_packing_again_costs_nothing(packed: PackedPixi, tmp_path: Path) -> None:
    steps: list[PackingStep] = []
    elsewhere = with_script(pixi_project(tmp_path))
    again = PackedPixi().beside(elsewhere.folder)
    again.prepare(steps.append)
    assert steps == []
    assert again.describe() == {**packed.describe(), "source": str(elsewhere.lock)}


def test_the_same_packages_give_the_same_archive(
    packed: PackedPixi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another folder, another lock and other caches."""
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    project = with_script(pixi_project(tmp_path / "elsewhere", version=6))
    other = PackedPixi().beside(project.folder)
    other.prepare(unheard)
    assert other.describe()["digest"] == packed.describe()["digest"]
    assert other.describe()["lock_sha256"] != packed.describe()["lock_sha256"]


def installed(project: PixiProject, progress: Progress = unheard, *, environment: str = "default") -> Path:
    """What is packed in the end."""
    folder = project.folder / f"installed-{len(list(project.folder.iterdir()))}"
    folder.mkdir()
    install(read_environment(project.lock, environment=environment, platform="linux-64"), folder, progress)
    return folder


def test_progress_counts_packages_and_bytes(project: PixiProject) -> None:
    steps: list[PackingStep] = []
    installed(project, steps.append)
    *_, last, wheels = steps
    assert last.what == "installing packages: 4 of 4"
    assert last.done == last.total
    assert wheels.what == "installing wheels: 1"


def test_packages_and_wheels_come_over_the_network_once(project: PixiProject, monkeypatch: pytest.MonkeyPatch) -> None:
    made = small_channel()
    monkeypatch.setenv("PIXI_CACHE_DIR", str(project.folder / "pixi"))
    with FileServer(made).serving() as server:
        text = project.lock.read_text().replace(made.as_uri(), server.url).replace(str(made), server.url)
        project.lock.write_text(text)
        assert (installed(project) / "bin" / "say-hello").exists()
    assert (package_cache() / "greeting-1.0-0").is_dir()
    assert (installed(project) / "bin" / "say-hello").exists()  # the server is gone


def refused(project: PixiProject, lock: str) -> str:
    project.lock.write_text(lock)
    with pytest.raises(CenoteError) as caught:
        installed(project)
    assert str(project.lock) in str(caught.value)
    return str(caught.value)


def test_a_file_that_is_not_what_was_locked_is_refused(project: PixiProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIXI_CACHE_DIR", str(project.folder / "pixi"))
    monkeypatch.setenv("UV_CACHE_DIR", str(project.folder / "uv"))
    text, made = project.lock.read_text(), small_channel()
    package, wheel = hash_of(project, "greeting"), hash_of(project, "hello")
    said = refused(project, text.replace(package, "f" * 64))
    assert "greeting-1.0-0.conda is not the package 'greeting'" in said
    assert f"locked: {'f' * 64}\n  found:  {package}" in said
    assert "hello-1.0-py3-none-any.whl is not the package 'hello'" in refused(project, text.replace(wheel, "f" * 64))
    with FileServer(made).serving() as server:
        remote = text.replace(made.as_uri(), server.url).replace(str(made), server.url)
        said = refused(project, remote.replace(package, "f" * 64))
        assert "failed to fetch greeting-1.0-0.conda" in said
        assert "what was fetched is not what was locked" in said
        assert "Hash mismatch for `hello" in refused(project, remote.replace(wheel, "f" * 64))


def hash_of(project: PixiProject, name: str) -> str:
    found = ""

    def look(lock: Lock) -> None:
        nonlocal found
        found = next(one["sha256"] for one in lock["packages"] if f"/{name}-1.0" in one.get("conda", one.get("pypi")))

    project.change_lock(look)
    return found


def test_a_package_that_cannot_be_fetched_is_named(project: PixiProject) -> None:
    text, made = project.lock.read_text(), small_channel()
    assert "there is no" in refused(project, text.replace("/greeting-1.0", "/greeting-2.0"))
    with FileServer(made).serving() as server:
        remote = text.replace(made.as_uri(), server.url).replace(str(made), server.url)
        said = refused(project, remote.replace("/greeting-1.0", "/greeting-2.0"))
        assert "failed to fetch greeting-2.0-0.conda" in said
        assert "404" in said
        assert "404" in refused(project, remote.replace("/hello-1.0-py3-", "/hello-1.0-py2.py3-"))


def test_a_full_disk_is_said_to_be_one(project: PixiProject, monkeypatch: pytest.MonkeyPatch) -> None:
    said = ("failed to link python-3.11.7-0_cpython.conda", "copying failed: No space left on device (os error 28)")
    monkeypatch.setattr("cenote.execution.environments.packed_pixi.install._run", lambda *_, **__: said)
    monkeypatch.setenv("CENOTE_CACHE", str(project.folder / "cache"))
    with pytest.raises(CenoteError, match="No space left on device") as raised:
        PackedPixi().beside(project.folder).prepare(unheard)
    assert (raised.value.exit_code, "CENOTE_CACHE" in str(raised.value)) == (31, True)


def test_a_failure_leaves_nothing_behind(project: PixiProject, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = project.folder / "cache"
    monkeypatch.setenv("CENOTE_CACHE", str(cache))
    project.lock.write_text(project.lock.read_text().replace("/greeting-1.0", "/greeting-2.0"))
    with pytest.raises(CenoteError):
        PackedPixi().beside(project.folder).prepare(unheard)
    assert [one.name for one in (cache / "environments").iterdir() if one.suffix != ".lock"] == []


def test_an_installed_prefix_is_packed_without_its_lock(packed: PackedPixi, tmp_path: Path) -> None:
    prefix = Path(on_node(packed, "python", "-c", "import sys; print(sys.prefix)"))
    copied = tmp_path / "project" / ".pixi" / "envs" / "default"
    shutil.copytree(prefix, copied, symlinks=True)
    for file in (copied / "bin").iterdir():
        if file.is_file() and not file.is_symlink() and str(prefix).encode() in file.read_bytes():
            file.write_text(file.read_text().replace(str(prefix), str(copied)))
    made = PackedPixi(prefix=".pixi/envs/default", scratch=str(tmp_path / "scratch")).beside(tmp_path / "project")
    assert list(made.check()) == []
    made.prepare(unheard)
    shutil.rmtree(copied)
    assert on_node(made, "greet") == "good day"
    assert on_node(made, "say-hello") == "hello"
