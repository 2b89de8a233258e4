"""What a large package brings along for a few of its functions is imported when one of those is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def said_by(code: str, *arguments: str, path: Path | None = None) -> list[str]:
    """What a fresh interpreter prints, where every warning is an error."""
    command = [sys.executable, "-W", "error", "-c", f"import sys\n{code}", *arguments]
    if path is not None:
        command[4] = f"import sys\nsys.path.append({str(path)!r})\n{code}"
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


SOME = "[name for name in ('awkward', 'pyarrow', 'fsspec', 'asyncio', 'importlib.metadata') if name in sys.modules]"


def test_awkward_is_imported_at_its_first_use_and_alone() -> None:
    code = f"""
from cenote.common.arrays import ak, is_awkward
print(is_awkward([1]), {SOME})
print(is_awkward(ak.Array([[1, 2], [3]])), is_awkward([1]), {SOME})
"""
    assert said_by(code) == ["False []", "True False ['awkward']"]


def test_what_was_left_out_is_there_for_those_who_use_it(tmp_path: Path) -> None:
    code = """
from cenote.common.arrays import ak
values = ak.Array([[1, 2], [3]])
ak.to_parquet(values, sys.argv[1])
print(ak.from_parquet(sys.argv[1]).to_list(), ak.from_arrow(ak.to_arrow(values)).to_list())
print(ak.str.upper(ak.Array(["a"])).to_list(), ak.from_json("[1]").to_list())
import importlib.metadata, fsspec.parquet, awkward._connect.pyarrow
print(*{type(one).__name__ for one in (importlib.metadata, fsspec, fsspec.parquet, awkward._connect.pyarrow)})
"""
    assert said_by(code, str(tmp_path / "x.parquet")) == ["[[1, 2], [3]] [[1, 2], [3]]", "['A'] [1]", "module"]


def test_hist_prints_histograms_all_the_same() -> None:
    code = """
from cenote.common.arrays import later
hist = later("hist")
print("hist" in sys.modules)
made = hist.Hist.new.Reg(2, 0, 1).Double()
print("histoprint" in sys.modules)
made.fill([0.1, 0.2, 0.7])
made.show(columns=30)
"""
    first, second, *shown = said_by(code)
    assert (first, second) == ("False", "False")
    assert any("0.500" in line for line in shown)


def test_threads_that_need_awkward_at_once_all_get_it() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from cenote.common.arrays import ak
together = Barrier(8)
def total(number):
    together.wait()
    return int(ak.sum(ak.Array([[number], [1]])))
with ThreadPoolExecutor(8) as pool:
    print(list(pool.map(total, range(8))))
"""
    assert said_by(code) == ["[1, 2, 3, 4, 5, 6, 7, 8]"]


def _package(folder: Path, group: str) -> Path:
    """A folder with an installed package that declares something of this group."""
    (folder / "own_plugins.py").write_text("class Own:\n    new_schema_validator = None\n")
    info = folder / "own-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\nown.it = own_plugins:Own\n")
    return folder


def test_entry_points_are_read_only_where_some_package_has_ours(tmp_path: Path) -> None:
    code = """
from cenote.language.plugins.kinds import installed
from cenote.language.plugins.kinds import PluginKind
print(installed(PluginKind.OPERATION).get("own.it"), "importlib.metadata" in sys.modules)
"""
    assert said_by(code) == ["None False"]
    assert said_by(code, path=_package(tmp_path, "cenote.operations")) == ["own_plugins:Own True"]


def test_plugins_of_pydantic_are_loaded_where_there_are_any(tmp_path: Path) -> None:
    code = """
import cenote.language.plugins.settings
from pydantic.plugin._loader import get_plugins
print(*get_plugins())
"""
    assert said_by(code) == [""]
    assert said_by(code, path=_package(tmp_path, "pydantic")) == ["<class 'own_plugins.Own'>"]
