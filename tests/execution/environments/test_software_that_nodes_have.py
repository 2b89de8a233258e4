"""Environments that nodes have already: a shared prefix, a container; what is checked where, and how that is said."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.conda_prefix import conda_prefix
from cenote.common.shell import FinishedProcess, run_command
from cenote.execution.environments.container import Container
from cenote.execution.environments.interface import Environment
from cenote.execution.environments.shared import SharedEnvironment
from cenote.execution.environments.support import packed as present
from cenote.execution.environments.support.packed import USE
from cenote.execution.launch import Launch
from cenote.execution.packing.archive import unheard
from cenote.execution.start_failures import StartFailure
from cenote.language.execution import Amounts
from cenote.testing.launches import a_launch

SHOW = "import os; print(*(os.environ.get(name) for name in ('CENOTE_PREFIX', 'ACTIVATED', 'MINE', 'LD_PRELOAD')))"


@pytest.fixture(autouse=True)
def nothing_to_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that travels is tried elsewhere."""
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(present, "needed_code", lambda _: [])


def launched(environment: Environment, folder: Path, *words: str) -> Launch:
    environment.prepare(unheard)
    return environment.complete(a_launch("python3", *words, folder=folder))


def started(launch: Launch, **variables: str) -> FinishedProcess:
    command, more = launch.here("default-1")
    assignments = [f"{name}={value}" for name, value in {**variables, **more}.items()]
    return run_command(["env", *assignments, *command], seconds=60)


def test_the_exit_codes_are_those_that_are_explained() -> None:
    lines = [line.removeprefix("cenote_").partition("=") for line in USE.read_text().splitlines()]
    written = {name: int(code) for name, _, code in lines if code.isdecimal()}
    assert written
    assert written.items() <= {failure.name: failure.value.code for failure in StartFailure}.items()


def test_a_site_s_own_python_of_another_version_is_refused_before_a_worker_starts(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    (tmp_path / "lib" / "python3.9" / "site-packages").mkdir(parents=True)
    (found,) = SharedEnvironment(prefix=str(tmp_path)).check()
    assert f"workers cannot use {tmp_path}: " in found.message
    assert "Python 3.9 (the driver has 3." in found.message


def test_a_shared_prefix_is_activated_as_conda_would_and_nothing_of_the_submit_host_leaks(tmp_path: Path) -> None:
    prefix = conda_prefix(tmp_path)
    (prefix / "conda-meta" / "state").write_text('{"env_vars": {"MINE": "it\'s \\"$HOME\\""}}')
    environment = SharedEnvironment(prefix=str(prefix))

    ended = started(launched(environment, tmp_path, "-c", SHOW), LD_PRELOAD="/leaked.so", PATH="/leaked:/usr/bin:/bin")

    assert ended.stdout == f'{prefix} {prefix}/share it\'s "$HOME" None\n', ended.stderr
    described = environment.describe()
    assert described["packages"]["activated"]
    assert (described["prefix"], len(described["digest"])) == (str(prefix), 64)


def broken(prefix: Path) -> None:
    (prefix / "bin" / "python").unlink()
    (prefix / "bin" / "python").write_text("#!/bin/sh\necho 'libpython3.so: cannot open shared object' >&2\nexit 127\n")
    (prefix / "bin" / "python").chmod(0o755)


def without_python(prefix: Path) -> None:
    (prefix / "bin" / "python").unlink()


@pytest.mark.parametrize(
    ("change", "failure", "words"),
    [
        (shutil.rmtree, StartFailure.NOT_SEEN, "there is no folder PREFIX"),
        (without_python, StartFailure.BROKEN_PYTHON, "there is no Python to run: PREFIX/bin/python"),
        (broken, StartFailure.BROKEN_PYTHON, "PREFIX/bin/python does not start: libpython3.so: cannot open"),
    ],
)
def test_a_node_that_cannot_use_it_says_why(tmp_path: Path, change: Any, failure: StartFailure, words: str) -> None:
    prefix = tmp_path / "a prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").write_text("")
    launch = launched(SharedEnvironment(prefix=str(prefix)), tmp_path, "-c", "")
    change(prefix)

    ended = started(launch)

    assert ended.returncode == failure.value.code
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"cenote: {words.replace('PREFIX', str(prefix))}")


def test_a_prefix_that_this_machine_sees_is_checked_here_and_one_that_it_does_not_see_is_left_to_the_nodes(
    tmp_path: Path,
) -> None:
    assert list(SharedEnvironment(prefix="/cvmfs/nowhere.example.org/x").check()) == []
    (tmp_path / "bin").mkdir()
    (empty,) = SharedEnvironment(prefix=str(tmp_path)).check()
    assert empty.message == f"{tmp_path} has no Python: there is no bin/python"

    (tmp_path / "bin" / "python").touch()
    (tmp_path / "lib/python3.9/site-packages/numpy-1.26.4.dist-info").mkdir(parents=True)
    info = tmp_path / "lib/python3.9/site-packages/numpy-1.26.4.dist-info/METADATA"
    info.write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.26.4\n")
    (tmp_path / "pyvenv.cfg").write_text("version = 3.9.1\n")
    (other,) = SharedEnvironment(prefix=str(tmp_path)).check()
    assert "it has Python 3.9.1 (the driver has " in other.message
    assert "numpy 1.26.4 (the driver has " in other.message


def a_runtime(folder: Path) -> Path:
    """Stands for apptainer: runs the command that follows the image, here."""
    program = folder / "apptainer"
    program.write_text('#!/bin/sh\necho "$@" >>"$0.log"\nwhile [ "$1" != IMAGE ]; do shift; done\nshift\nexec "$@"\n')
    program.write_text(program.read_text().replace("IMAGE", str(folder / "image.sif")))
    program.chmod(0o755)
    return program


def test_a_container_is_started_with_what_workers_need_inside(tmp_path: Path) -> None:
    (tmp_path / "image.sif").write_text("an image")
    (tmp_path / "data").mkdir()
    environment = Container(
        image=str(tmp_path / "image.sif"),
        runtime=str(a_runtime(tmp_path)),
        binds=(f"{tmp_path}/data:/data:ro",),
        options=("--no-home",),
    )
    launch = launched(environment, tmp_path, "-c", "print('inside')")

    ended = started(launch)

    assert ended.stdout == "inside\n", ended.stderr
    tried, ran = (tmp_path / "apptainer.log").read_text().splitlines()
    assert tried.endswith(" --no-home " + str(tmp_path / "image.sif") + " python3 -I -S -B -c ")
    shown = ran.split()[2].split(",")
    assert {"/tmp", "/var/tmp", str(USE.parent), f"{tmp_path}/data:/data:ro"} <= set(shown)
    assert len(environment.describe()["digest"]) == 64


def test_every_folder_that_python_imports_from_is_shown_inside(tmp_path: Path) -> None:
    (tmp_path / "image.sif").write_text("an image")
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    environment = Container(
        image=str(tmp_path / "image.sif"),
        runtime=str(a_runtime(tmp_path)),
        variables={"PYTHONPATH": f"{tmp_path}/one:{tmp_path}/missing:{tmp_path}/two:/"},
    )

    ended = started(launched(environment, tmp_path, "-c", ""))

    assert ended.returncode == 0, ended.stderr
    shown = (tmp_path / "apptainer.log").read_text().split()[2].split(",")
    assert {f"{tmp_path}/one", f"{tmp_path}/two"} <= set(shown)
    assert not {f"{tmp_path}/missing", "/"} & set(shown)


def test_a_folder_that_cannot_be_shown_inside_is_an_error_and_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "image.sif").write_text("an image")
    (tmp_path / "a,b").mkdir()
    settings = {"image": str(tmp_path / "image.sif"), "runtime": str(a_runtime(tmp_path))}
    launch = launched(Container(**settings, variables={"PYTHONPATH": f"{tmp_path}/a,b"}), tmp_path, "-c", "")

    ended = started(launch)

    assert ended.returncode == StartFailure.NOT_SEEN.value.code
    assert "a,b cannot be shown in a container: it has a comma or a colon in its name" in ended.stderr


def test_the_gpus_of_a_pool_are_usable_inside(tmp_path: Path) -> None:
    gpu = replace(a_launch("python3", "-c", "pass", folder=tmp_path), resources=Amounts(gpus=1))
    words = [word for part in Container(image="docker://x").complete(gpu).interpreter for word in part]
    assert "--nv" in words
    assert "docker://x" in words
    words = [word for part in Container(image="docker://x", gpus=False).complete(gpu).interpreter for word in part]
    assert "--nv" not in words


def test_an_environment_in_a_squashfs_is_shown_over_the_image(tmp_path: Path) -> None:
    launch = launched(Container(image="docker://x", squashfs=f"{tmp_path}/env.sqfs"), tmp_path, "-c", "pass")
    command = " ".join(launch.here("w")[0])
    assert f",{tmp_path}/env.sqfs:/opt/cenote-environment:image-src=/" in command
    assert "cenote_needs " + str(tmp_path / "env.sqfs") in command


@pytest.mark.parametrize(
    ("settings", "failure", "words"),
    [
        ({"runtime": "no-such-program"}, StartFailure.NO_CONTAINER_RUNTIME, "there is no program no-such-program"),
        ({"image": "FOLDER/gone.sif"}, StartFailure.NOT_SEEN, "there is no FOLDER/gone.sif"),
        ({"binds": ("/no/such/folder:/data",)}, StartFailure.NOT_SEEN, "there is no /no/such/folder"),
        ({"runtime": "false"}, StartFailure.BROKEN_PYTHON, "Python in the container does not start"),
    ],
)
def test_a_node_that_cannot_run_it_says_why(
    tmp_path: Path, settings: dict[str, Any], failure: StartFailure, words: str
) -> None:
    (tmp_path / "image.sif").write_text("an image")
    given = {"image": str(tmp_path / "image.sif"), "runtime": str(a_runtime(tmp_path)), **settings}
    given["image"] = given["image"].replace("FOLDER", str(tmp_path))

    ended = started(launched(Container.model_validate(given), tmp_path, "-c", "pass"))

    assert ended.returncode == failure.value.code, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"cenote: {words.replace('FOLDER', str(tmp_path))}")


def test_names_that_apptainer_would_take_apart_are_refused_here(tmp_path: Path) -> None:
    (problem,) = Container(image=f"{tmp_path}/a,b.sif").check()
    assert "has a comma or a colon in its name" in problem.message
