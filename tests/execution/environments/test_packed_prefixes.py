"""Environments that pack a prefix of this machine: what is refused beforehand, and what workers are started with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from builders.small_prefixes import small_conda_prefix
from builders.virtual_environments import make_venv
from cenote.common.errors import CenoteError
from cenote.execution.environments.packed_conda import PackedConda
from cenote.execution.environments.packed_venv import PackedVenv
from cenote.execution.environments.support.packed_prefix import PackedPrefix
from cenote.execution.launch import SentFile
from cenote.execution.packing.archive import PackingStep, unheard
from cenote.execution.packing.stock import Stock
from cenote.execution.start_failures import StartFailure
from cenote.testing.launches import a_launch


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: the archive of Cenote's code is packed once, and each test has a prefix of its own."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def surroundings(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(cache))
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return small_conda_prefix(tmp_path / "prefix")


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    make_venv(tmp_path)
    return tmp_path / "venv"


def problem(environment: PackedPrefix) -> str:
    (found,) = environment.check()
    return str(found)


def files(environment: PackedPrefix, folder: Path) -> list[SentFile]:
    launch = environment.complete(a_launch("python3", "-c", "pass", folder=folder))
    return [file for file in launch.files if file.on_demand]


def test_a_prefix_that_can_be_packed_has_no_problems(prefix: Path, venv: Path) -> None:
    assert [*PackedConda(prefix=str(prefix)).check(), *PackedVenv(prefix=str(venv)).check()] == []


def test_the_active_prefix_is_packed_where_none_is_named(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "does not know which prefix to pack" in problem(PackedConda())
    monkeypatch.setenv("CONDA_PREFIX", str(prefix))
    assert PackedConda().describe()["source"] == str(prefix)


def test_relative_prefixes_are_meant_from_the_folder_of_the_workflow(prefix: Path) -> None:
    assert PackedConda(prefix="prefix").beside(prefix.parent).describe()["source"] == str(prefix)


def test_what_is_no_prefix_is_refused_with_the_kind_that_it_is(prefix: Path, venv: Path, tmp_path: Path) -> None:
    assert "there is no such folder" in problem(PackedConda(prefix=str(tmp_path / "missing")))
    assert "not a conda prefix" in problem(PackedConda(prefix=str(tmp_path)))
    assert "`type: packed-venv` packs" in problem(PackedConda(prefix=str(venv)))
    assert "`type: packed-conda` packs" in problem(PackedVenv(prefix=str(prefix)))


def test_a_prefix_without_python_is_refused(prefix: Path, venv: Path) -> None:
    (prefix / "bin" / "python").unlink()
    assert "there is no bin/python" in problem(PackedConda(prefix=str(prefix)))
    for name in ("python", "python3"):
        (venv / "bin" / name).unlink(missing_ok=True)
    (venv / "bin" / "python").symlink_to("/no/such/python")
    assert "the Python that it was made with is gone" in problem(PackedVenv(prefix=str(venv)))


def test_a_python_that_is_too_old_is_refused(tmp_path: Path) -> None:
    old = small_conda_prefix(tmp_path / "old", version="3.9.2")
    assert "has Python 3.9.2: workers need 3.11 or later" in problem(PackedConda(prefix=str(old)))


def test_files_that_cannot_be_read_are_named(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: not str(path).endswith("text"))
    assert "share/text cannot be read" in problem(PackedConda(prefix=str(prefix)))
    assert list(PackedConda(prefix=str(prefix), exclude=("share/*",)).check()) == []


def test_a_cache_without_room_is_named_before_anything_is_packed(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (prefix / "share" / "large").open("wb") as file:
        file.truncate(10_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    assert "has no room to pack 10 MB: 1 kB are free" in problem(PackedConda(prefix=str(prefix)))


def test_packages_of_the_system_are_refused(venv: Path) -> None:
    settings = venv / "pyvenv.cfg"
    settings.write_text(settings.read_text().replace("packages = false", "packages = true"))
    assert "also uses the packages of" in problem(PackedVenv(prefix=str(venv)))


def test_a_launch_can_be_shown_before_anything_is_packed(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    environment = PackedConda(prefix=str(prefix))
    names = [file.name for file in files(environment, tmp_path)]
    assert names == ["packed-conda-not-packed-yet", "code-not-packed-yet"]
    assert environment.describe() == {"source": str(prefix), "digest": "not-packed-yet"}
    assert not (tmp_path / "cache").exists()


def test_once_it_is_packed_every_launch_shows_the_archives(prefix: Path, tmp_path: Path) -> None:
    environment = PackedConda(prefix=str(prefix))
    environment.prepare(unheard)
    sent = files(environment, tmp_path)
    assert all(file.source.is_file() for file in sent)
    another = PackedConda(prefix=str(prefix))
    assert files(another, tmp_path) == sent
    assert another.describe() == environment.describe()
    described = environment.describe()
    assert (described["python"], described["platform"]) == ("3.12.1", "linux-64")
    assert described["packages"] == {"python": "3.12.1"}
    assert "SECRET" not in str(described)


def test_packing_it_again_packs_nothing_until_a_file_changes(prefix: Path) -> None:
    def packed() -> tuple[str, bool]:
        steps: list[PackingStep] = []
        environment = PackedConda(prefix=str(prefix))
        environment.prepare(steps.append)
        return environment.describe()["digest"], bool(steps)

    first, again = packed(), packed()
    assert (first[1], again) == (True, (first[0], False))
    (prefix / "lib" / "python3.12" / "__pycache__").mkdir()
    (prefix / "lib" / "python3.12" / "__pycache__" / "stray.pyc").touch()
    assert packed() == again
    (prefix / "share" / "text").write_text("changed")
    assert packed()[0] != first[0]


def test_the_record_names_what_this_run_packed_from_also_where_another_packed_it_before(
    prefix: Path, tmp_path: Path
) -> None:
    PackedConda(prefix=str(prefix)).prepare(unheard)
    link = tmp_path / "other-name"
    link.symlink_to(prefix)
    again = PackedConda(prefix=str(link))
    again.prepare(unheard)
    assert again.describe()["source"] == str(link)


def test_a_run_keeps_its_archives_from_being_cleaned_away(prefix: Path) -> None:
    environment = PackedConda(prefix=str(prefix))
    environment.prepare(unheard)
    digest = environment.describe()["digest"]
    assert len(Stock().clean(lambda record: record.digest == digest).in_use) == 1
    del environment
    assert len(Stock().clean(lambda record: record.digest == digest).removed) == 1


def test_archives_are_copied_to_a_folder_that_nodes_see(prefix: Path, tmp_path: Path) -> None:
    environment = PackedConda(prefix=str(prefix), folder=str(tmp_path / "shared"))
    environment.prepare(unheard)
    sent = files(environment, tmp_path)
    assert {file.source.parent for file in sent} == {tmp_path / "shared"}
    digest = environment.describe()["digest"]
    assert digest in sent[0].name
    before = sent[0].source.stat().st_mtime_ns
    environment.prepare(unheard)
    assert sent[0].source.stat().st_mtime_ns == before


def test_code_that_the_prefix_only_links_to_travels_too(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "project" / "analysis").mkdir(parents=True)
    (tmp_path / "project" / "analysis" / "__init__.py").write_text("")
    site = prefix / "lib" / "python3.12" / "site-packages"
    info = site / "analysis-2.0.dist-info"
    info.mkdir(parents=True)
    (site / "analysis.pth").write_text(f"{tmp_path}/project\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: analysis\nVersion: 2.0\n")
    (info / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    (info / "RECORD").write_text("analysis.pth,,\nanalysis-2.0.dist-info/METADATA,,\n")
    (project,) = PackedConda(prefix=str(prefix))._edited()
    assert (project.name, project.version) == ("analysis", "2.0")
    assert [name for name, _ in project.files()] == ["analysis/__init__.py", "analysis-2.0.dist-info/METADATA"]


def test_without_zstandard_archives_are_gzip(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cenote.execution.packing.write.find_spec", lambda _: None)
    assert "zstandard" in problem(PackedConda(prefix=str(prefix), compression="zstd"))
    assert PackedConda(prefix=str(prefix))._wanted().compression == "gzip"


def test_a_damaged_record_of_conda_is_named(prefix: Path) -> None:
    (prefix / "conda-meta" / "numpy-2.1-0.json").write_text("{cut off")
    with pytest.raises(CenoteError, match=r"numpy-2\.1-0\.json is damaged"):
        list(PackedConda(prefix=str(prefix)).check())


def test_a_prefix_that_vanishes_is_an_error_and_no_traceback(prefix: Path) -> None:
    environment = PackedConda(prefix=str(prefix))
    shutil.rmtree(prefix)
    with pytest.raises(CenoteError, match="there is no such folder"):
        environment.prepare(unheard)


def test_scripts_that_name_the_prefix_by_another_path_run_too(tmp_path: Path) -> None:
    (tmp_path / "home").symlink_to(tmp_path)
    make_venv(tmp_path / "home")
    script = tmp_path / "venv" / "bin" / "tool"
    script.write_text(f"#!{tmp_path}/home/venv/bin/python\nimport sys; print(sys.prefix)\n")
    script.chmod(0o755)
    environment = PackedVenv(prefix=str(tmp_path / "venv"), scratch=str(tmp_path / "node"))
    environment.prepare(unheard)
    (tmp_path / "home").unlink()
    done = started(environment, tmp_path)
    tool = subprocess.run([f"{done.stdout.strip()}/bin/tool"], capture_output=True, text=True, check=True)
    assert tool.stdout == done.stdout


def started(environment: PackedPrefix, folder: Path) -> subprocess.CompletedProcess[str]:
    launch = environment.complete(a_launch("python3", "-c", "import sys; print(sys.prefix)", folder=folder))
    command, variables = launch.here("worker-1")
    return subprocess.run(
        command, env={**os.environ, **variables}, cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_node_with_another_python_says_which_one_is_needed(venv: Path, tmp_path: Path) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    (venv / "lib" / f"python{version}").rename(venv / "lib" / "python3.99")
    environment = PackedVenv(prefix=str(venv), scratch=str(tmp_path / "node"))
    environment.prepare(unheard)
    done = started(environment, tmp_path)
    assert done.returncode == StartFailure.BROKEN_PYTHON.value.code
    assert f"Python 3.99, and the node has Python {version} there" in done.stderr


def test_a_node_without_that_python_says_so(venv: Path, tmp_path: Path) -> None:
    environment = PackedVenv(prefix=str(venv), scratch=str(tmp_path / "node"))
    base = tmp_path / "base-python"
    base.symlink_to(Path(sys.base_prefix, "bin", "python3"))
    for name in ("python", "python3", f"python{sys.version_info.major}.{sys.version_info.minor}"):
        (venv / "bin" / name).unlink(missing_ok=True)
        (venv / "bin" / name).symlink_to(base)
    environment.prepare(unheard)
    base.unlink()
    done = started(environment, tmp_path)
    assert done.returncode == StartFailure.BROKEN_PYTHON.value.code, done.stderr
