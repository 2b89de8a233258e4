"""Plugin files work where their folder is not: with the modules beside them, as they were when the run was made."""

from __future__ import annotations

import pickle
import sys
import textwrap
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from cenote.common.software import PREFIX_VARIABLE
from cenote.language.plugins import own_files, registry
from cenote.language.plugins.shipped import SourceFile, bring_along, extend_path

OPS = """
    from my_cuts import threshold
    from my_tools.masks import above

    class Answer:
        def __init__(self):
            self.value = above(threshold)

    def fails():
        raise ValueError("on purpose")
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    bring_along(())
    for name in [name for name in sys.modules if name.startswith(("my_", "cenote_plugin_"))]:
        del sys.modules[name]


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "my_cuts.py").write_text("threshold = 20\n")
    (tmp_path / "unused.py").write_text("raise RuntimeError\n")
    (tmp_path / "my_tools").mkdir()
    (tmp_path / "my_tools" / "__init__.py").write_text("")
    (tmp_path / "my_tools" / "masks.py").write_text("def above(value):\n    return value + 1\n")
    (tmp_path / "ops.py").write_text(textwrap.dedent(OPS))
    return tmp_path / "ops.py"


def elsewhere(plugin: Path, sources: tuple[SourceFile, ...]) -> ModuleType:
    """What another machine makes of it: the folder is not there, and nothing of it is imported yet."""
    for file in sorted(plugin.parent.rglob("*.py")):
        file.unlink()
    for name in [name for name in sys.modules if name.startswith(("my_", "cenote_plugin_ops"))]:
        del sys.modules[name]
    travelled: tuple[SourceFile, ...] = pickle.loads(pickle.dumps(sources))
    bring_along(travelled)
    (file,) = [one for one in travelled if not one.module]
    return own_files.load_source(file)


def test_a_plugin_and_the_modules_beside_it_work_where_their_folder_is_not(plugin: Path) -> None:
    registry.add_file(plugin)
    sources = own_files.sources_of([str(plugin)])
    assert [one.module for one in sources] == ["", "my_cuts", "my_tools", "my_tools.masks"]
    assert elsewhere(plugin, sources).Answer().value == 21


def test_what_a_plugin_makes_there_can_be_read_here(plugin: Path) -> None:
    here = registry.add_file(plugin)
    there = elsewhere(plugin, own_files.sources_of([str(plugin)]))
    made = pickle.dumps(there.Answer())
    sys.modules[here.__name__] = here
    assert isinstance(pickle.loads(made), here.Answer)


def test_a_traceback_from_there_shows_the_line_of_the_file(plugin: Path) -> None:
    registry.add_file(plugin)
    there = elsewhere(plugin, own_files.sources_of([str(plugin)]))
    with pytest.raises(ValueError, match="on purpose") as caught:
        there.fails()
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.line) == (str(plugin), 'raise ValueError("on purpose")')


def test_a_file_that_changes_meanwhile_travels_as_it_was(plugin: Path) -> None:
    registry.add_file(plugin)
    plugin.write_text("raise RuntimeError('edited while the run goes on')\n")
    assert b"on purpose" in own_files.sources_of([str(plugin)])[0].source


def test_packages_that_are_installed_do_not_travel() -> None:
    assert own_files.sources_of(["numpy", "cenote.common.units"]) == ()


def test_folders_of_the_driver_serve_workers_of_the_same_software_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv(PREFIX_VARIABLE, "/var/tmp/unpacked")
    extend_path([str(tmp_path)])
    assert str(tmp_path) not in sys.path
    monkeypatch.delenv(PREFIX_VARIABLE)
    extend_path([str(tmp_path)])
    assert sys.path[-1] == str(tmp_path)
