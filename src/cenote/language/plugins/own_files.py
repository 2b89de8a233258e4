"""Load plugins from beside the workflow, with the modules and files they depend on, and take their code apart."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from cenote.common import errors, storage
from cenote.common.signals import Interrupted
from cenote.common.text import did_you_mean
from cenote.common.values import dataclass
from cenote.language.plugins import resources
from cenote.language.plugins.imports import Imports, digest_of_code, is_beside, modules_in_package, without_texts
from cenote.language.plugins.resources import ResourceFile
from cenote.language.plugins.shipped import SourceFile, bring_along, spec_of

# Find words in people's own code: what is not named there is not looked at, unless its name is put together.


WORDS = ("dataset", "datasets", "constants")
"""What code says if it looks beyond columns: names of attributes of events."""
_OURS = "cenote"
_SCOPE = "scope"
"""What a declaration says by this name looks at nothing: `scope="dataset"`."""


def mentioned(words: Collection[str], sources: Iterable[SourceFile]) -> tuple[str, ...]:
    """Those of the words that sources have as the name of an attribute, or in a text. All of them where that cannot be
    told: in compiled modules, and beside functions from within this package, which may look for them."""
    names = [name for source in sources for name in _names_in(source)]
    if None in names:
        return tuple(words)
    return tuple(word for word in words if any(word in name for name in names if name is not None))


def _names_in(source: SourceFile) -> Iterator[str | None]:
    """The name of every attribute that is looked at, and every text; None for what may hold any. Variables, arguments
    and modules, which may well be called `constants`, are none."""
    if source.binary:
        yield None
        return
    try:
        tree = ast.parse(source.source)
    except (SyntaxError, ValueError):
        yield None
        return
    standing_alone = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings among them
    standing_alone |= {node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == _SCOPE}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and _is_within_ours(node):
            yield None
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.MatchClass):
            yield from node.kwd_attrs
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and node not in standing_alone:
            yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def _is_within_ours(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether it imports from a module of this package; what the package itself offers looks at nothing."""
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return any(module.startswith(f"{_OURS}.") for module in modules)


@dataclass(frozen=True)
class PluginCode:
    """A plugin from beside the workflow, and all that it depends on, as they were when it was loaded."""

    files: tuple[SourceFile, ...]
    """What may declare plugins."""
    modules: tuple[SourceFile, ...]
    """What these import from beside them."""
    resources: tuple[ResourceFile, ...]
    digest: str
    found_late: tuple[str, ...] = ()
    """Modules that the sources do not name: they were seen only when it was loaded. Not empty for files too."""


_own: dict[str, PluginCode] = {}
"""Path of a plugin file or package → its code as it was when it was added last."""


def load_file(path: Path) -> tuple[list[ModuleType], str]:
    """The modules of a plugin file, or a package, and the digest of their code. Repeated calls import it once, as long
    as nothing of it has changed."""
    if storage.is_folder(path):
        return _load(str(path), _package(path), path)
    if not storage.is_file(path):
        beside = [other.name for other in path.parent.glob("*.py")]
        hint = did_you_mean(path.name, beside)
        raise errors.error(errors.MISSING_FILE, f"plugin file {_shown(path)} does not exist", hint=hint)
    return _load(str(path), [SourceFile(str(path), path.read_bytes(), target=str(path))], path)


def _package(path: Path) -> list[SourceFile]:
    names = list(modules_in_package(path)) if path.name.isidentifier() else []
    imports = Imports(path.parent)
    for name in names:
        imports.add_module(name)
    if not names:
        raise errors.error(errors.BAD_PLUGIN, f"{_shown(path)} is not a package: it holds no Python file")
    return [replace(imports.modules[name], target=str(path)) for name in (path.name, *names) if name in imports.modules]


def _load(target: str, files: list[SourceFile], path: Path) -> tuple[list[ModuleType], str]:
    """Load a plugin from beside the workflow with the modules there, and keep what it depends on."""
    imports = Imports(path.parent)
    for file in files:
        imports.add(file)
    mine = {file.module: file for file in files if file.module}
    modules = {**imports.modules, **mine}
    first = digest_of_code(files, imports, as_written=True)
    before = _own.get(target)
    stem = f"cenote_plugin_{path.stem}_{hashlib.blake2b((first + target).encode(), digest_size=6).hexdigest()}"
    files = [file if file.module else replace(file, name=stem) for file in files]
    if before is not None and before.found_late:  # by loading it: so that is how to find them again
        for name in (stem, *before.found_late):
            sys.modules.pop(name, None)
    bring_along([*_unchanged_beside(path), *modules.values()])
    known = set(sys.modules)
    with resources.noting() as read:
        loaded = [load_source(file) for file in files]
    imports.modules = dict(modules)
    for name in [name for name in sys.modules if name not in known and is_beside(name.partition(".")[0], path.parent)]:
        imports.add_module(name)
    imports.read.update(dict.fromkeys(read))
    late = tuple(name for name in imports.modules if name not in modules)
    said = mentioned(WORDS, [*files, *imports.modules.values()])
    _own[target] = PluginCode(
        files=tuple(replace(file, mentions=said) for file in files),
        modules=tuple(file for name, file in sorted(imports.modules.items()) if name not in mine),
        resources=resources.describe(imports.read),
        digest=digest_of_code(files, imports),
        found_late=late or (("",) if read else ()),
    )
    return loaded, _own[target].digest


def _unchanged_beside(path: Path) -> Iterator[SourceFile]:
    """What other plugins of the folder import: they may do so later, in a function."""
    for target, code in _own.items():
        if Path(target).parent == path.parent and Path(target) != path:
            yield from (one for one in code.modules if _is_unchanged(one))


def _is_unchanged(file: SourceFile) -> bool:
    path = Path(file.path)
    return path.is_dir() if path.suffix == "" else path.is_file() and path.read_bytes() == file.source


def load_source(file: SourceFile) -> ModuleType:
    """A plugin file that was read here or elsewhere; under the same path and name, so that its objects may travel."""
    name = file.module or file.name
    if name in sys.modules:
        return sys.modules[name]
    if not file.module:
        return _execute(name, file)
    with _explained(Path(file.path)):
        return importlib.import_module(name)


def sources_of(targets: Iterable[str]) -> tuple[SourceFile, ...]:
    """The code of plugins from beside the workflow, as it was then, and the modules that they import."""
    found = [_own[target] for target in targets if target in _own]
    files = [file for code in found for file in code.files]
    named = {file.module for file in files}
    beside = {one.module: one for code in found for one in code.modules if one.module not in named}
    return (*files, *beside.values())


def mentions_of(target: str) -> tuple[str, ...] | None:
    """Which of `WORDS` a plugin from beside the workflow names, or what it imports from there."""
    return _own[target].files[0].mentions if target in _own and _own[target].files else None


def resources_of(targets: Iterable[str]) -> tuple[ResourceFile, ...]:
    """The files that plugins from beside the workflow read."""
    found = [one for target in targets if target in _own for one in _own[target].resources]
    return tuple(dict.fromkeys(found))


def _execute(name: str, file: SourceFile) -> ModuleType:
    path = Path(file.path)
    spec = spec_of(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _explained(path):
            assert spec.loader is not None
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """While a plugin is loaded: modules beside it can be imported, errors carry their place, and the
    working directory stays: names of data and of the output folder count from it."""
    sys.path.insert(0, str(path.parent))
    try:
        with storage.staying_here():
            yield
    except errors.CenoteError as problem:  # it declares nonsense, and that was explained
        raise errors.CenoteError(one.at(_place_in(path, problem)) for one in problem.problems) from problem
    except Interrupted:
        raise
    except BaseException as problem:  # a plugin may raise anything, SystemExit included
        words = (
            f"{type(problem).__name__}: {problem.msg}" if isinstance(problem, SyntaxError) else errors.words_of(problem)
        )
        raise errors.error(
            errors.BAD_PLUGIN,
            f"plugin file {path.name} fails: {words}",
            place=_place_in(path, problem),
        ) from problem
    finally:
        sys.path.remove(str(path.parent))


def _shown(path: Path) -> str:
    """As a person who works here would call it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _place_in(path: Path, problem: BaseException) -> errors.Place | None:
    if isinstance(problem, SyntaxError) and problem.filename == str(path) and problem.lineno:
        return errors.Place(_shown(path), problem.lineno, problem.offset or 1)
    step, line = problem.__traceback__, None
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(path):
            line = step.tb_lineno
        step = step.tb_next
    return errors.Place(_shown(path), line, 1) if line else None


def place_in_plugin(problem: BaseException) -> errors.Place | None:
    """Where in a plugin file, if it was there."""
    paths = (Path(file.path) for code in _own.values() for file in (*code.files, *code.modules))
    return next((place for path in paths if (place := _place_in(path, problem))), None)


# Take Python code apart into its functions, so that a change can be named by the one that it was made in.


REST = ""
"""What stands outside functions and classes."""
CLASS = "class "
"""How the name of a class begins, which stands for all of it but its methods."""


def functions_of(source: bytes) -> dict[str, tuple[str, int]]:
    """Function, `Class.method`, `class Class` and the rest of the module (`""`) → digest of what it says, and its line.

    Comments, formatting and docstrings count for none of them. What is no Python is all rest.
    """
    try:
        module = without_texts(ast.parse(source))
    except (SyntaxError, ValueError):
        return {REST: (_digest(source), 1)}
    found: dict[str, tuple[list[str], int]] = {REST: ([], 1)}
    for name, node in _parts(module):
        said, _ = found.setdefault(name, ([], getattr(node, "lineno", 1)))
        said.append(ast.dump(node))
    return {
        name: (_digest("\n".join(said).encode(errors="surrogatepass")), line) for name, (said, line) in found.items()
    }


def _parts(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            node.body = [one for one in node.body if one not in methods]
            yield f"{CLASS}{node.name}", node
            for method in methods:
                yield f"{node.name}.{method.name}", method
        else:
            yield REST, node


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
