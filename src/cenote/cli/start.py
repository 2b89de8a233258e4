"""Write a new analysis from a template: workflow, operations, data, README."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from cenote.common import errors


class Template(NamedTuple):
    """An analysis to start from."""

    folder: str
    """Below `templates/`."""
    workflow: str
    about: str
    software: tuple[str, ...] = ()
    """Packages that it needs besides Cenote's own."""
    extra: str = ""
    """The extra of Cenote that installs them."""


TEMPLATES: dict[str, Template] = {
    "zmumu": Template("zmumu", "zmumu.yaml", "Z → μμ: data against simulation, cutflow, ROOT files"),
    "tabular": Template("tabular", "trips.yaml", "bicycle trips in parquet files: no physics at all"),
    "three-pools": Template(
        "three_pools",
        "signal.yaml",
        "stages on CPU, high-memory and GPU workers",
        software=("onnx", "onnxruntime"),
        extra="ml",
    ),
}
DATA_SCRIPT = "make_data.py"


def text_files(template: Template) -> Iterator[tuple[str, str]]:
    """Name and content of every file of the template."""
    source: Traversable = files("cenote.cli.templates") / template.folder
    for entry in sorted(source.iterdir(), key=lambda entry: entry.name):
        if entry.is_file() and not entry.name.startswith((".", "__")):
            yield entry.name, entry.read_text(encoding="utf-8")


def check_software(template: Template) -> None:
    """Raises `environment` where the template needs a package that is not installed."""
    if missing := [name for name in template.software if find_spec(name) is None]:
        raise errors.error(
            errors.ENVIRONMENT,
            f"this example evaluates a model; not installed: {', '.join(missing)}",
            hint=f"pip install 'cenote[{template.extra}]'",
        )


def start_analysis(folder: Path, template: Template, *, force: bool) -> list[Path]:
    """Write the template's files and make its data; existing files are refused, or overwritten with `force`.

    Returns what was written, data included.
    """
    check_software(template)
    contents = dict(text_files(template))
    present = [name for name in contents if (folder / name).exists()]
    if present and not force:
        raise errors.error(
            errors.USAGE,
            f"{folder} already has {', '.join(present)}",
            hint="choose another folder, or overwrite with --force",
        )
    return [*_written(folder, contents), *make_data(folder)]


def _written(folder: Path, contents: dict[str, str]) -> Iterator[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_text(content, encoding="utf-8")
            yield folder / name
    except OSError as problem:
        raise errors.error(errors.USAGE, f"cannot write to {folder}: {problem.strerror}") from None


def make_data(folder: Path) -> list[Path]:
    """Run the analysis's own data script; it returns the files it wrote."""
    written: list[Path] = runpy.run_path(str(folder / DATA_SCRIPT))["write"](folder / "data")
    return written
