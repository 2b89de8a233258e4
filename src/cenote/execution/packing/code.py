"""Pack code that changes often, apart from the environment: Cenote itself, and what is installed to be edited."""

from __future__ import annotations

import ast
import hashlib
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

import msgspec

import cenote
from cenote.common.values import dataclass
from cenote.execution.packing.archive import OWN_FOLDER, Compression, Progress
from cenote.execution.packing.prefixes.pack import CODE_ACTIVATION, compile_sources
from cenote.execution.packing.software import Software, normal_name
from cenote.execution.packing.write import Member, Written, left_out, walk, write_archive

CODE = "code"
"""The kind of these archives in the stock."""
_OURS = "cenote"
_SAID_OF_A_PACKAGE = ("METADATA", "entry_points.txt", "top_level.txt")
"""The rest is about where it was installed."""
_FOR_DEVELOPERS = {"setup", "conftest", "noxfile", "tests", "test", "docs", "doc", "examples", "build", "dist"}
"""What lies beside the packages of a project without being one of them."""


@dataclass(frozen=True)
class CodeProject:
    """A package whose files are somewhere on this machine: the name, the version, and what it brings."""

    name: str
    version: str
    modules: tuple[Path, ...]
    """Folders and files that are imported by their names."""
    info: Path | None = None
    """Its `dist-info`."""

    def files(self) -> Iterator[tuple[str, Path]]:
        """Name in the archive → file."""
        for module in self.modules:
            if module.is_file():
                yield module.name, module
            else:
                found = walk(module, left_out(("*.pyc",)))
                yield from ((f"{module.name}/{one.name}", one.path) for one in found if one.path.is_file())
        if self.info is not None:
            for name in _SAID_OF_A_PACKAGE:
                if (self.info / name).is_file():
                    yield f"{self.info.name}/{name}", self.info / name


def needed_code(there: Software | None, others: Iterable[CodeProject] = ()) -> list[CodeProject]:
    """What must travel beside an environment that holds this software (None where nobody knows): what is edited here,
    Cenote itself unless this very version is in there, and the `others`. Of each name the first counts."""
    found = {project.name: project for project in reversed([*editable_projects(sys.path), *others])}
    own = own_project()
    if there is None or there.packages.get(_OURS) != own.version:
        found.setdefault(_OURS, own)
    return [found[name] for name in sorted(found)]


def own_project() -> CodeProject:
    """Cenote, as it runs now."""
    modules = (Path(cenote.__file__).parent,)
    try:
        info = Path(str(distribution(_OURS).locate_file(""))) / f"{_OURS}-{distribution(_OURS).version}.dist-info"
    except PackageNotFoundError:  # it runs from its sources
        return CodeProject(_OURS, cenote.__version__, modules)
    return CodeProject(_OURS, cenote.__version__, modules, info if info.is_dir() else None)


def editable_projects(folders: Sequence[str]) -> list[CodeProject]:
    """Packages that are installed in these folders as links to where they are edited.

    Those that are built anew on import (by meson-python, scikit-build-core) name no folder of code, and are left out.
    """
    found = [_project(one) for one in distributions(path=list(folders)) if _is_edited(one)]
    return [project for project in found if project.modules]


def _is_edited(one: Distribution) -> bool:
    text = one.read_text("direct_url.json")
    written: Any = msgspec.json.decode(text) if text else {}  # Any: JSON
    return bool(written.get("dir_info", {}).get("editable") and one.metadata["Name"])


def _project(one: Distribution) -> CodeProject:
    folder = Path(str(one.locate_file("")))
    files = [folder / file for file in (str(file) for file in one.files or ()) if "/" not in file]
    modules: list[Path] = []
    for file in files:
        if file.suffix == ".pth" and file.is_file():
            roots = [Path(line.strip()) for line in file.read_text(encoding="utf-8").splitlines()]
            modules += [module for root in roots if root.is_dir() for module in _modules_in(root, one)]
        elif file.suffix == ".py" and file.is_file():
            modules += _mapped(file)
    info = next((folder / str(file).split("/")[0] for file in one.files or () if ".dist-info/" in str(file)), None)
    name = normal_name(one.metadata["Name"])
    return CodeProject(name, one.version, tuple(sorted(set(modules))), info)


def _modules_in(root: Path, one: Distribution) -> list[Path]:
    """What a folder on the path adds to the modules."""
    named = (one.read_text("top_level.txt") or "").split()
    is_project = (root / "pyproject.toml").exists() or (root / "setup.py").exists()
    found = []
    for path in sorted(root.iterdir()):
        stem = path.name.partition(".")[0]
        is_module = path.suffix in (".py", ".so") or (path.is_dir() and any(path.glob("*.py")))
        wanted = stem in named if named else not (is_project and stem in _FOR_DEVELOPERS)
        if is_module and stem.isidentifier() and wanted:
            found.append(path)
    return found


def _mapped(finder: Path) -> list[Path]:
    """Of setuptools' finder of edited packages: `MAPPING = {'name': '/folder/name'}` in its code."""
    for node in ast.parse(finder.read_bytes()).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == "MAPPING" for target in targets):
            paths = [Path(place) for place in ast.literal_eval(node.value).values()]
            return [path if path.exists() else path.with_name(f"{path.name}.py") for path in paths]
    return []


def code_content(projects: Sequence[CodeProject]) -> str:
    """Changes when a file of the projects does, or the Python that compiles them."""
    digest = hashlib.sha256(sys.version.encode())
    for project in projects:
        for name, file in sorted(project.files()):
            digest.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def pack_code(
    projects: Sequence[CodeProject], file: Path, compression: Compression, staging: Path, progress: Progress
) -> Written:
    """Write the archive of these projects, importable from the folder that it is unpacked to."""
    tree = staging / "tree"
    for project in projects:
        for name, source in project.files():
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    names = [one.name for one in walk(tree, left_out()) if one.name.endswith(".py")]
    compile_sources(Path(sys.executable), tree, names, tree, (), progress)
    found = walk(tree, lambda _: False)
    members = [
        Member(one.name) if one.is_folder else Member(one.name, one.path, executable=bool(one.facts.st_mode & 0o100))
        for one in found
    ]
    own = [Member(OWN_FOLDER), Member(f"{OWN_FOLDER}/activate.sh", CODE_ACTIVATION.encode())]
    total = sum(one.facts.st_size for one in found)
    return write_archive(file, [*members, *own], compression, progress, total=total)
