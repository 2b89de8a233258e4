"""The digest of a plugin changes with anything that its code depends on, and with nothing else."""

from __future__ import annotations

import importlib.metadata
import pickle
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from cenote.common.errors import CenoteError
from cenote.language.plugins import own_files, registry, resources
from cenote.language.plugins.imports import version_of
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.shipped import bring_along

HEAD = "from cenote import operation\n"
OPERATION = """
@operation("custom.{name}", reads=["x"], adds=["y"])
def {name}(events):
    return {{"y": {value}}}
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    restore = registry.forget_added()
    yield
    restore()
    bring_along(())
    for name in [name for name in sys.modules if name.startswith(("dep_", "cenote_plugin_"))]:
        del sys.modules[name]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def plugin(folder: Path, top: str, *, name: str = "mine", value: str = "1", within: str = "") -> Path:
    body = OPERATION.format(name=name, value=value)
    if within:
        body = body.replace("    return", f"    {within}\n    return")
    return write(folder, f"{name}.py", HEAD + textwrap.dedent(top) + body)


def digest(path: Path, name: str = "mine") -> str:
    registry.add_file(path)
    return registry.code_digest(PluginKind.OPERATION, f"custom.{name}")


CASES = {
    "a module": ("import dep_a", "dep_a.py"),
    "a module under another name": ("import dep_a as other", "dep_a.py"),
    "names of a module": ("from dep_a import threshold", "dep_a.py"),
    "a package": ("import dep_b", "dep_b/__init__.py"),
    "a module of a package": ("from dep_b import inner", "dep_b/inner.py"),
    "a module of a package by its whole name": ("import dep_b.inner", "dep_b/inner.py"),
    "what a package imports from itself": ("import dep_b.relative", "dep_b/inner.py"),
    "what a module imports": ("import dep_c", "dep_a.py"),
    "a folder without __init__": ("import dep_n.deep.low", "dep_n/deep/low.py"),
    "by a function": ("import importlib\nlate = importlib.import_module('dep_a')", "dep_a.py"),
    "by a computed name": ("import importlib\nlate = importlib.import_module('dep' + '_a')", "dep_a.py"),
    "in a try": ("try:\n    import dep_a\nexcept ImportError:\n    pass", "dep_a.py"),
    "a file": ("from cenote import resource\ntable = resource('table.csv').read_text()", "table.csv"),
    "a file by a computed name": ("import cenote\ntable = cenote.resource('table' + '.csv').read_text()", "table.csv"),
    "a file that a module reads": ("import dep_d", "table.csv"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "dep_a.py", "threshold = 20\n")
    write(tmp_path, "dep_b/__init__.py", "flag = 1\n")
    write(tmp_path, "dep_b/inner.py", "threshold = 20\n")
    write(tmp_path, "dep_b/relative.py", "from .inner import threshold\n")
    write(tmp_path, "dep_c.py", "from dep_a import threshold\n")
    write(tmp_path, "dep_d.py", "import cenote\n\ndef read():\n    return cenote.resource('table.csv').read_text()\n")
    write(tmp_path, "dep_n/deep/low.py", "threshold = 20\n")
    write(tmp_path, "table.csv", "1,2\n")
    write(tmp_path, "unrelated.py", "answer = 42\n")
    return tmp_path


def comment_on(file: Path) -> None:
    """Says the same in other words."""
    if file.suffix == ".py":
        file.write_text(f'"""What it is for."""\n\n# as before\n{file.read_text()}')


def change(file: Path) -> None:
    file.write_text(file.read_text() + ("more = 1\n" if file.suffix == ".py" else "\n"))


@pytest.mark.parametrize("case", CASES)
def test_a_change_of_what_it_imports_or_reads_changes_it(folder: Path, case: str) -> None:
    top, changed = CASES[case]
    path = plugin(folder, top)
    before = digest(path)
    assert digest(path) == before
    comment_on(folder / changed)
    assert digest(path) == before
    change(folder / changed)
    assert digest(path) != before


def test_docstrings_count_where_code_looks_at_them(folder: Path) -> None:
    write(folder, "dep_f.py", 'def cuts():\n    """pt > 20"""\n')
    path = plugin(folder, "import dep_f\ncuts = dep_f.cuts.__doc__")
    before = digest(path)
    write(folder, "dep_f.py", 'def cuts():\n    """pt > 25"""\n')
    assert digest(path) != before


def test_another_python_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = plugin(folder, "import dep_a")
    before = digest(path)
    monkeypatch.setattr("cenote.language.plugins.imports.PYTHON", "3.99")
    assert digest(path) != before


@pytest.mark.parametrize("case", ["a module", "a module of a package", "what a package imports from itself"])
def test_imports_within_functions_count(folder: Path, case: str) -> None:
    statement, changed = CASES[case]
    path = plugin(folder, "", within=statement)
    before = digest(path)
    (folder / changed).write_text("threshold = 21\n")
    assert digest(path) != before


def test_what_it_does_not_import_changes_nothing(folder: Path) -> None:
    path = plugin(folder, "import dep_a")
    before = digest(path)
    (folder / "unrelated.py").write_text("answer = 43\n")
    (folder / "dep_b" / "inner.py").write_text("threshold = 21\n")
    assert digest(path) == before


def test_plugins_in_one_folder_have_digests_of_their_own(folder: Path) -> None:
    one, other = plugin(folder, "import dep_a", name="one"), plugin(folder, "import dep_b.inner", name="other")
    before = digest(one, "one"), digest(other, "other")
    (folder / "dep_a.py").write_text("threshold = 21\n")
    after = digest(one, "one"), digest(other, "other")
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_where_the_folder_lies_does_not_matter(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    for name in ("dep_a.py", "table.csv"):
        (other / name).write_bytes((folder / name).read_bytes())
    top = "import dep_a, cenote\ncenote.resource('table.csv')"
    assert digest(plugin(folder, top)) == digest(plugin(other, top))


def test_what_runs_is_what_was_hashed_after_a_change_in_the_same_process(folder: Path) -> None:
    path = plugin(folder, "from dep_c import threshold")
    assert registry.add_file(path).threshold == 20
    (folder / "dep_a.py").write_text("threshold = 30\n")
    assert registry.add_file(path).threshold == 30


def test_two_folders_may_have_modules_of_one_name(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "dep_a.py").write_text("threshold = 99\n")
    assert registry.add_file(plugin(folder, "from dep_a import threshold")).threshold == 20
    assert registry.add_file(plugin(other, "from dep_a import threshold")).threshold == 99


def test_versions_of_installed_packages_count() -> None:
    assert version_of("numpy") == f"numpy {importlib.metadata.version('numpy')}"
    assert "xdist" in version_of("xdist"), "it is called pytest-xdist where it is installed from"
    assert version_of("no_such_package_at_all") == ""


def test_a_package_that_is_worked_on_is_known_by_its_sources(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    write(library, "dep_on_path.py", "threshold = 1\n")
    monkeypatch.syspath_prepend(str(library))
    path = plugin(folder, "import dep_on_path")
    before = digest(path)
    (library / "dep_on_path.py").write_text("threshold = 22\n")
    assert digest(path) != before
    assert registry.add_file(path).dep_on_path.threshold == 22, "what runs is what was hashed"


def test_what_a_package_that_is_worked_on_imports_counts_too(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    write(
        library, "dep_outer/__init__.py", "def threshold():\n    from dep_inner import limits\n    return limits.low\n"
    )
    write(library, "dep_inner/limits.py", "import dep_outer\nlow = 1\n")
    monkeypatch.syspath_prepend(str(library))
    path = plugin(folder, "from dep_outer import threshold")
    before = digest(path)
    assert registry.add_file(path).threshold() == 1
    write(library, "dep_inner/limits.py", "import dep_outer\nlow = 22\n")
    assert digest(path) != before
    assert registry.add_file(path).threshold() == 22


# packages as plugins


@pytest.fixture
def package(tmp_path: Path) -> Path:
    write(tmp_path, "dep_pkg/__init__.py", "")
    body = "from cenote import operation, resource\nfrom .cuts import threshold\nfrom dep_pkg import cuts\n"
    body += "table = resource('table.csv').read_text()\n"
    write(tmp_path, "dep_pkg/steps.py", body + OPERATION.format(name="packed", value="threshold"))
    write(tmp_path, "dep_pkg/cuts.py", "threshold = 20\n")
    write(tmp_path, "dep_pkg/table.csv", "1\n")
    write(tmp_path, "dep_pkg/tests/test_steps.py", "raise RuntimeError('tests are not plugins')\n")
    return tmp_path / "dep_pkg"


@pytest.mark.parametrize("changed", ["steps.py", "cuts.py", "table.csv", "__init__.py"])
def test_a_package_is_a_plugin_and_all_of_it_counts(package: Path, changed: str) -> None:
    before = digest(package, "packed")
    assert before
    comment_on(package / changed)
    assert digest(package, "packed") == before
    change(package / changed)
    assert digest(package, "packed") != before


def test_a_package_works_where_its_folder_is_not(package: Path) -> None:
    registry.add_file(package)
    sources = pickle.loads(pickle.dumps(own_files.sources_of([str(package)])))
    files = pickle.loads(pickle.dumps(resources.packed(own_files.resources_of([str(package)]))))
    for path in sorted(package.rglob("*.*")):
        path.unlink()
    for name in [name for name in sys.modules if name.startswith("dep_pkg")]:
        del sys.modules[name]
    registry.forget_added()
    resources.serve(files, str(package.parent))
    bring_along(sources)
    registry.add_travelled(str(package), None, None, sources)
    assert "custom.packed" in registry.names(PluginKind.OPERATION)
    assert sys.modules["dep_pkg.steps"].table == "1\n"


def test_a_folder_without_code_is_no_plugin(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(CenoteError, match="holds no Python file"):
        registry.add_file(tmp_path / "data")


# files


def test_a_file_that_the_plan_does_not_know_is_not_read(folder: Path) -> None:
    path = plugin(folder, "import cenote\ndef read(name):\n    return cenote.resource(name)\n")
    module = registry.add_file(path)
    resources.serve((), str(folder))
    with pytest.raises(CenoteError, match="not known when the run was planned"):
        module.read("table.csv")
    resources.serve(resources.describe([folder / "table.csv"]), str(folder))
    assert module.read("table.csv") == folder / "table.csv"


def test_a_file_that_changes_meanwhile_is_read_as_it_was(folder: Path) -> None:
    module = registry.add_file(plugin(folder, "import cenote\ndef read():\n    return cenote.resource('table.csv')\n"))
    resources.serve(resources.packed(resources.describe([folder / "table.csv"])), "")
    (folder / "table.csv").write_text("edited while the run goes on")
    assert module.read().read_text() == "1,2\n"
    assert module.read().name == "table.csv"


def test_a_file_that_changes_after_it_was_read_is_read_as_it_was(folder: Path) -> None:
    module = registry.add_file(plugin(folder, "import cenote\ndef read():\n    return cenote.resource('table.csv')\n"))
    resources.serve(resources.packed(resources.describe([folder / "table.csv"])), "")
    assert module.read() == folder / "table.csv"
    (folder / "table.csv").write_text("3,4\n")
    assert module.read().read_text() == "1,2\n"
    assert module.read() == module.read(), "one copy is enough"


def test_a_file_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(CenoteError, match=r"resource\('tabel.csv'\): there is no such file"):
        registry.add_file(plugin(folder, "import cenote\ncenote.resource('tabel.csv')"))
