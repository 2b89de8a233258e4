"""What is read from pixi.lock and pixi.toml, and why some of it is refused: nothing is installed here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.conda_channel import Lock, PixiProject, pixi_project
from cenote.common.errors import Problem
from cenote.execution.environments.packed_pixi import PackedPixi
from cenote.execution.environments.packed_pixi.environment import read_activation
from cenote.execution.environments.packed_pixi.lock import read_environment
from cenote.execution.packing.software import this_platform


@pytest.fixture
def project(tmp_path: Path) -> PixiProject:
    return pixi_project(tmp_path / "project")


def problems(project: PixiProject, **settings: Any) -> list[Problem]:  # Any: settings as YAML has them
    return list(PackedPixi(**settings).beside(project.folder).check())


def problem(project: PixiProject, **settings: Any) -> str:
    (found,) = problems(project, **settings)
    return str(found)


def default_packages(lock: Lock) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lock["environments"]["default"]["packages"]["linux-64"]
    return found


@pytest.mark.parametrize("version", [6, 7])
def test_a_lock_says_what_an_environment_has(tmp_path: Path, version: int) -> None:
    project = pixi_project(tmp_path, version=version)
    locked = read_environment(project.lock, environment="default", platform="linux-64")
    assert sorted(one.name for one in locked.conda) == ["activated", "compiled", "greeting", "python"]
    assert [one.name for one in locked.wheels] == ["hello"]
    assert all(len(one.sha256) == 64 and one.local_file for one in (*locked.conda, *locked.wheels))
    assert problems(project) == []
    assert problems(project, environment="python") == []


def test_the_manifest_is_found_above_the_workflow_and_in_pyproject(project: PixiProject) -> None:
    below = project.folder / "flows" / "muons"
    below.mkdir(parents=True)
    assert list(PackedPixi().beside(below).check()) == []
    text = project.manifest.read_text()
    project.manifest.unlink()
    tables = text.replace("[", "[tool.pixi.", 1).replace("\n[", "\n[tool.pixi.")
    (project.folder / "pyproject.toml").write_text('[project]\nname = "analysis"\n' + tables)
    assert problems(project) == []


def test_a_platform_of_the_lock_may_have_a_name_of_its_own(project: PixiProject) -> None:
    def rename(lock: Lock) -> None:
        lock["platforms"] = [{"name": "linux-64-cuda", "subdir": "linux-64", "virtual-packages": ["__cuda=12.0"]}]
        for each in lock["environments"].values():
            each["packages"] = {"linux-64-cuda": each["packages"]["linux-64"]}

    project.change_lock(rename)
    assert problems(project) == []
    assert problems(project, platform="linux-64-cuda") == []


def test_two_sorts_of_a_platform_must_be_told_apart(project: PixiProject) -> None:
    def add(lock: Lock) -> None:
        lock["platforms"] = [{"name": name, "subdir": "linux-64"} for name in ("old", "new")]
        lock["environments"]["default"]["packages"] = dict.fromkeys(("old", "new"), default_packages(lock))

    project.change_lock(add)
    said = problem(project)
    assert "several sorts of the platform 'linux-64': new, old" in said
    assert problems(project, platform="new") == []


def test_without_a_manifest_the_folder_is_named(tmp_path: Path) -> None:
    (found,) = PackedPixi().beside(tmp_path).check()
    assert f"neither a pixi.toml nor a pyproject.toml with [tool.pixi] in {tmp_path}" in found.message
    (found,) = PackedPixi(manifest="sub/pixi.toml").beside(tmp_path).check()
    assert found.message == f"there is no manifest {tmp_path}/sub/pixi.toml"


def test_without_a_lock_its_place_is_named(project: PixiProject) -> None:
    project.lock.unlink()
    assert problem(project) == f"there is no lock {project.lock}\n  hint: `pixi lock` writes it"


def test_an_unknown_environment_is_corrected(project: PixiProject) -> None:
    said = problem(project, environment="defualt")
    assert f"{project.lock} has no environment 'defualt'" in said
    assert "environments of the lock: default, activated" in said or "activated, compiled, default" in said
    assert "did you mean 'default'?" in said


def test_an_environment_that_was_never_locked_is_explained(project: PixiProject) -> None:
    project.change_lock(lambda lock: lock["environments"].pop("python"))
    assert "the manifest has it: `pixi lock` writes it anew" in problem(project, environment="python")


def only_for_macs(lock: Lock) -> None:
    lock["platforms"] = [{"name": "osx-arm64"}]
    lock["environments"]["default"]["packages"] = {"osx-arm64": default_packages(lock)}


def without_hashes(lock: Lock) -> None:
    for package in lock["packages"]:
        package.pop("sha256")


def without_python(lock: Lock) -> None:
    packages = default_packages(lock)
    packages[:] = [one for one in packages if "python-3" not in one.get("conda", "")]


def with_a_source(lock: Lock) -> None:
    where = "mine[1234abcd] @ git+https://example.org/mine.git#abc"
    default_packages(lock).append({"conda_source": where})
    lock["packages"].append({"conda_source": where, "version": "1.0"})


def with_a_source_distribution(lock: Lock) -> None:
    where = "https://example.org/old-1.0.tar.gz"
    default_packages(lock).append({"pypi": where})
    lock["packages"].append({"pypi": where, "name": "old", "version": "1.0", "sha256": "0" * 64})


def with_the_project(lock: Lock) -> None:
    default_packages(lock).append({"pypi": "./"})
    lock["packages"].append({"pypi": "./", "name": "analysis-of-tests", "version": "0.1.0"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lock: lock.update(version=9), "has version 9; versions 6 and 7 of pixi's locks can be packed"),
        (lambda lock: lock.update(version=4), "`pixi lock` writes it anew"),
        (lambda lock: lock.pop("version"), "has no version"),
        (only_for_macs, f"has nothing for the platform '{this_platform()}'\n  platforms of the lock: osx-arm64"),
        (without_hashes, "has no SHA-256 of"),
        (without_python, "environment 'default' of {lock} has no Python for linux-64"),
        (with_a_source, "must be built from their sources: mine\n  hint: install it with pixi, and pack the folder"),
        (with_a_source_distribution, "must be built from their sources: old"),
        (with_the_project, "'analysis-of-tests', which {lock} takes from"),
    ],
)
def test_what_cannot_be_packed_is_refused(project: PixiProject, change: Callable[[Lock], None], words: str) -> None:
    project.change_lock(change)
    assert words.format(lock=project.lock) in problem(project)
    assert str(project.lock) in problem(project)


def test_the_project_itself_is_sent_as_code(project: PixiProject) -> None:
    project.change_lock(with_the_project)
    package = project.folder / "src" / "analysis_of_tests"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    assert problems(project) == []
    (sent,) = PackedPixi().beside(project.folder)._edited()
    assert (sent.name, sent.version, sent.modules) == ("analysis-of-tests", "0.1.0", (package.resolve(),))
    (project.folder / "CMakeLists.txt").write_text("")
    assert "is not Python code that can be sent" in problem(project)


def test_a_lock_for_other_machines_is_not_packed_here(project: PixiProject) -> None:
    project.change_lock(only_for_macs)
    said = problem(project, platform="osx-arm64")
    assert f"an environment for osx-arm64 cannot be packed on this machine, which is {this_platform()}" in said


def test_a_lock_that_is_no_yaml_has_its_line(project: PixiProject) -> None:
    project.lock.write_text("version: 7\nenvironments: [\n")
    assert f"{project.lock}:3:1: the lock of pixi is not YAML" in problem(project)


def test_a_prefix_stands_alone() -> None:
    with pytest.raises(ValueError, match="`prefix` is an environment as it was installed: it has no `lock`"):
        PackedPixi(prefix=".pixi/envs/default", lock="pixi.lock")


def test_a_prefix_that_is_none_is_refused(tmp_path: Path) -> None:
    (found,) = PackedPixi(prefix="envs/default").beside(tmp_path).check()
    assert found.message == f"{tmp_path}/envs/default: there is no such folder, which is to be packed"
    (found,) = PackedPixi(prefix=".").beside(tmp_path).check()
    assert "is not a conda prefix" in found.message


def test_the_words_of_fast_hep_are_understood() -> None:
    assert PackedPixi(mode="prefix", source="current") == PackedPixi(prefix="current")
    theirs = {"mode": "self-extracting", "environment": "gpu", "archive_path": "env.sh", "worker_env_dir": "env"}
    assert PackedPixi(**theirs) == PackedPixi(environment="gpu")
    with pytest.raises(ValueError, match="`mode` should be `prefix` or `self-extracting`, not `shared`"):
        PackedPixi(mode="shared")


MANIFEST = """
[workspace]
name = "analysis"
channels = []
platforms = ["linux-64"]

[activation]
scripts = ["all.sh"]
env = { A = "default", B = "default", C = "default" }

[target.linux-64.activation]
scripts = ["here.sh"]
env = { B = "linux-64" }

[target.win-64.activation]
env = { A = "windows" }

[feature.gpu.activation]
scripts = ["gpu.sh", "gpu.bat"]
env = { C = "$HOME/a \\"b\\" `c` $(d)" }

[environments]
gpu = ["gpu"]
bare = { features = ["gpu"], no-default-feature = true }
"""


def test_activation_comes_from_features_and_targets(tmp_path: Path) -> None:
    manifest = tmp_path / "pixi.toml"
    manifest.write_text(MANIFEST)
    for name in ("all", "here", "gpu"):
        (tmp_path / f"{name}.sh").write_text(f"export SCRIPT_{name}=1\n")

    def activation(environment: str) -> tuple[list[str], dict[str, str]]:
        found = read_activation(manifest, environment=environment, subdir="linux-64")
        return [script.name for script in found.scripts], dict(found.variables[1:])

    odd = '$HOME/a "b" `c` $(d)'
    assert activation("default") == (["here.sh"], {"A": "default", "B": "linux-64", "C": "default"})
    assert activation("gpu") == (["gpu.sh", "here.sh"], {"A": "default", "B": "linux-64", "C": odd})
    assert activation("bare") == (["gpu.sh"], {"C": odd})
    files = read_activation(manifest, environment="bare", subdir="linux-64").files()
    assert files == {
        "etc/conda/activate.d/00_pixi.sh": 'export PIXI_ENVIRONMENT_NAME="bare"\n'
        'export C="$HOME/a \\"b\\" \\`c\\` \\$(d)"\n',
        "etc/conda/activate.d/zzzz_pixi_00_gpu.sh": "export SCRIPT_gpu=1\n",
    }


def test_an_activation_script_that_is_missing_is_named(project: PixiProject) -> None:
    text = project.manifest.read_text().replace(
        "[activation.env]", '[activation]\nscripts = ["no.sh"]\n[activation.env]'
    )
    project.manifest.write_text(text)
    assert problem(project) == f"there is no {project.folder}/no.sh, an activation script of {project.manifest}"


def test_packages_that_install_are_asked_for(project: PixiProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cenote.execution.environments.packed_pixi.install.find_spec", lambda _: None)
    said = problem(project)
    assert "needs packages that are not installed: py-rattler, uv" in said
    assert "pip install 'cenote[environments]'" in said
