"""Code that changes often travels in an archive of its own: Cenote, and what is installed to be edited."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cenote
from builders.unpacked import unpack
from cenote.execution.packing.archive import unheard
from cenote.execution.packing.code import (
    CodeProject,
    code_content,
    editable_projects,
    needed_code,
    own_project,
    pack_code,
)
from cenote.execution.packing.software import Software
from cenote.execution.packing.write import Written


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder that packages are installed to."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    return folder


def install(site: Path, name: str, files: dict[str, str], *, url: str = "file:///somewhere") -> None:
    """As installers do it for packages that are edited: links to them, and what they are."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/direct_url.json": f'{{"url": "{url}", "dir_info": {{"editable": true}}}}',
        f"{info}/entry_points.txt": "[cenote.operations]\nown = own:Own\n",
        **files,
    }
    for path, text in files.items():
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_text(text)
    (site / info / "RECORD").write_text("".join(f"{path},,\n" for path in (*files, f"{info}/RECORD")))


def packed(projects: list[CodeProject], file: Path) -> Written:
    staging = file.with_name(f"{file.name}-staging")
    staging.mkdir()
    return pack_code(projects, file, "zstd", staging, unheard)


def source(folder: Path) -> Path:
    """A project in a folder, with a package and what lies around it."""
    for name, text in {
        "pyproject.toml": "[project]\n",
        "setup.py": "1/0\n",
        "own/__init__.py": "answer = 42\n",
        "own/data/table.csv": "1,2\n",
        "own/__pycache__/stray.pyc": "",
        "tests/test_own.py": "",
        "docs/page.md": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def files_of(project: CodeProject) -> set[str]:
    return {name for name, _ in project.files()}


def test_cenote_itself_is_found_as_it_runs() -> None:
    own = own_project()
    assert (own.name, own.version) == ("cenote", cenote.__version__)
    assert {"cenote/__init__.py", "cenote/execution/environments/support/unpack.sh"} <= files_of(own)
    assert not any("__pycache__" in name or name.endswith(".pyc") for name in files_of(own))


def test_a_folder_on_the_path_brings_its_packages_and_not_what_developers_have(site: Path, tmp_path: Path) -> None:
    install(site, "own", {"own.pth": f"{source(tmp_path / 'project')}\n"})
    (project,) = editable_projects([str(site)])
    assert (project.name, project.version) == ("own", "1.0")
    assert files_of(project) == {
        *("own/__init__.py", "own/data/table.csv"),
        *("own-1.0.dist-info/METADATA", "own-1.0.dist-info/entry_points.txt"),
    }


def test_a_finder_of_setuptools_brings_what_it_maps(site: Path, tmp_path: Path) -> None:
    folder = source(tmp_path / "project")
    (folder / "single.py").write_text("")
    places = {"own": f"{folder}/own", "single": f"{folder}/single"}
    finder = f"import sys\nMAPPING: dict[str, str] = {places!r}\nNAMESPACES = {{}}\n"
    pth = "import __editable___own_finder; __editable___own_finder.install()"
    install(site, "own", {"__editable___own_finder.py": finder, "__editable__.own.pth": pth})
    (project,) = editable_projects([str(site)])
    assert {path.name for path in project.modules} == {"own", "single.py"}


def test_what_is_built_on_import_is_left_out(site: Path) -> None:
    finder = "import sys\nKNOWN = {'own': '/elsewhere/own.so'}\n"
    install(site, "own", {"_own_editable.py": finder, "_own_editable.pth": "import _own_editable"})
    assert editable_projects([str(site)]) == []


def test_what_is_installed_in_the_usual_way_stays(site: Path) -> None:
    install(site, "usual", {"usual/__init__.py": ""})
    (site / "usual-1.0.dist-info" / "direct_url.json").write_text('{"url": "file:///x.whl", "archive_info": {}}')
    assert editable_projects([str(site)]) == []


def test_cenote_travels_where_the_environment_has_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])  # where nothing is edited
    there = Software("3.12.1", "linux-64", {"cenote": cenote.__version__})
    assert needed_code(there) == []
    assert [one.name for one in needed_code(Software())] == ["cenote"]
    assert [one.name for one in needed_code(None)] == ["cenote"]


def test_what_is_edited_travels_always(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, "own", {"own.pth": f"{source(tmp_path / 'project')}\n"})
    monkeypatch.setattr(sys, "path", [str(site)])
    in_prefix = CodeProject("own", "0.9", ()), CodeProject("another", "1", ())
    there = Software(packages={"cenote": cenote.__version__, "own": "1.0"})
    assert [(one.name, one.version) for one in needed_code(there, in_prefix)] == [("another", "1"), ("own", "1.0")]


def test_code_is_imported_from_the_archive_with_its_entry_points(site: Path, tmp_path: Path) -> None:
    install(site, "own", {"own.pth": f"{source(tmp_path / 'project')}\n"})
    packed(editable_projects([str(site)]), tmp_path / "archive")
    tree = unpack(tmp_path / "archive", tmp_path / "tree")
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "sys.path.insert(0, os.environ['PYTHONPATH'])\n"
        "import own\n"
        "from importlib.metadata import entry_points\n"
        "print(own.answer, own.__cached__, *entry_points(name='own'))\n"
    )
    script = f"CENOTE_HERE={tree}; . {tree}/.cenote/activate.sh; exec {sys.executable} -I {program}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    answer, cached, *points = done.stdout.split()
    assert (answer, Path(cached).is_file(), bool(points)) == ("42", True, True)


def test_the_same_code_is_the_same_archive_and_an_edited_line_another(site: Path, tmp_path: Path) -> None:
    folder = source(tmp_path / "project")
    install(site, "own", {"own.pth": f"{folder}\n"})
    projects = editable_projects([str(site)])
    first, content = packed(projects, tmp_path / "first"), code_content(projects)
    (folder / "own" / "__pycache__" / "more.pyc").write_text("")
    (folder / "own" / "__init__.py").touch()
    assert (packed(projects, tmp_path / "second"), code_content(projects)) == (first, content)
    (folder / "own" / "__init__.py").write_text("answer = 43\n")
    assert code_content(projects) != content
    assert packed(projects, tmp_path / "third").digest != first.digest
