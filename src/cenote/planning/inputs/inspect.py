"""Look into one file: its trees, their columns, types and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from cenote.analysis.sources.interface import ColumnInfo, Source
from cenote.analysis.sources.support.files import is_remote, local_path
from cenote.common import errors
from cenote.common.text import did_you_mean, listed
from cenote.common.values import dataclass
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind

KINDS = {
    ".root": "root_tree",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
}
"""Ending of a file → the source that reads it."""


@dataclass(frozen=True)
class InspectedTree:
    """A tree, or the only table of a file."""

    name: str
    entries: int
    columns: Sequence[tuple[str, ColumnInfo]]
    """Name, type and uncompressed size, as in the file."""
    clusters: int
    """Ranges of events that can be read without decompressing others; 0 where that is not known."""

    @property
    def bytes(self) -> int:
        """Uncompressed, of all columns."""
        return sum(column.bytes for _, column in self.columns)


@dataclass(frozen=True)
class InspectedFile:
    """What is in a file."""

    url: str
    kind: str
    size: int
    trees: tuple[InspectedTree, ...]


def kind_of(url: str) -> str:
    """The source that reads a file, by its name. Raises `usage` where the name does not say."""
    if url.startswith("toy://"):
        return "toy"
    if not is_remote(url) and local_path(url).is_dir():
        raise _a_folder(local_path(url))
    endings = PurePosixPath(url.partition("?")[0]).suffixes[::-1]
    found = next((KINDS[ending.lower()] for ending in endings[:2] if ending.lower() in KINDS), None)
    if found is None:
        known = listed(sorted(set(KINDS.values())))
        hint = f"say so with --kind: {known}"
        raise errors.error(errors.USAGE, f"{url}: its name does not say what kind of file it is", hint=hint)
    return found


def _a_folder(path: Path) -> errors.CenoteError:
    """With the first file in it that can be looked into."""
    files = (file for file in sorted(path.iterdir()) if file.suffix.lower() in KINDS and file.is_file())
    found = next(files, None)
    hint = f"did you mean '{found}'?" if found is not None else None
    return errors.error(errors.USAGE, f"{path} is a folder, not a file", hint=hint)


def inspect_file(url: str, *, kind: str | None = None, tree: str | None = None) -> InspectedFile:
    """Read the metadata of everything in a file, or of one tree. Raises `bad-input` where it cannot be read."""
    chosen = kind or kind_of(url)
    source: Source = registry.make(PluginKind.SOURCE, chosen, {})
    parts = source.parts(url)
    names = [name for name, _ in parts]
    if tree is not None and tree not in names:
        words = f"{url} holds no tree '{tree}'"
        hint = did_you_mean(tree, names)
        raise errors.error(errors.BAD_INPUT, words, details=(f"trees there: {listed(names)}",), hint=hint)
    described = [(name, one.describe(url)) for name, one in parts if tree in (None, name)]
    trees = tuple(
        InspectedTree(name, info.entries, tuple(info.columns.items()), max(0, len(info.boundaries) - 1))
        for name, info in described
    )
    size = described[0][1].size if described else 0
    return InspectedFile(url, chosen, size, trees)
