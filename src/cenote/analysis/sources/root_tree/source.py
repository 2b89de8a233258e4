"""Read ROOT files: TTree and RNTuple, on this machine or by `root://` and `https://`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import FileInfo, Source
from cenote.analysis.sources.support.files import is_remote


class RootTreeSource(Source):
    """Reads a TTree or an RNTuple of a ROOT file.

    Branches inside others are columns with flat names: `Muon.pt` of an RNTuple and `Muon/Muon.pt` of a TTree are
    both `Muon_pt`. Objects have a column for each of their numbers: `p4_fP_fX` and `p4_fE` of a TLorentzVector `p4`,
    `hit_x` of a leaf list `hit`. Expressions may write `p4.fP.fX`.
    """

    example: ClassVar[str] = """
    sources:
      events: {kind: root_tree, tree: Events}
    """

    tree: str | None = None
    """The name of the tree; by default the only one of the file, or `Events` (or `events`) if it holds several."""

    @classmethod
    def warm_up(cls) -> None:
        import cenote.analysis.sources.root_tree.plain_file  # noqa: F401

    def parts(self, url: str) -> Sequence[tuple[str, Source]]:
        """Every tree, or the one that is named."""
        from cenote.analysis.sources.root_tree.open_file import trees_in

        names = trees_in(url) if self.tree is None else (self.tree,)
        return [(name, RootTreeSource(tree=name)) for name in names]

    def current_stamp(self, url: str) -> str:
        """Of a remote file, what it says itself: servers have other times for other copies of the same file."""
        if not is_remote(url):
            return self.stamp(url)
        from cenote.analysis.sources.root_tree.plain_file import remote_stamp

        return remote_stamp(url)

    def describe(self, url: str) -> FileInfo:
        """Entries, columns and cluster boundaries of the tree, and where its baskets are."""
        from cenote.analysis.sources.root_tree.plain_file import describe  # with awkward, which known files need not

        return describe(url, self.tree)

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Exactly these columns; what was found out of the file serves the next range."""
        from cenote.analysis.sources.root_tree.plain_file import read

        return read(url, self.tree, columns, start, stop)

    def cut_places(self, noted: bytes, columns: Sequence[str], ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Where the baskets of these columns are."""
        from cenote.analysis.sources.root_tree.places import cut

        return cut(noted, columns, ranges)

    def read_placed(self, url: str, columns: Sequence[str], start: int, stop: int, places: bytes) -> dict[str, Column]:
        """Without opening a file for what is known of it, if it is still the one that this was found in."""
        from cenote.analysis.sources.root_tree.plain_file import read_placed

        return read_placed(url, self.tree, columns, start, stop, places)

    def fetch_placed(self, url: str, start: int, stop: int, places: bytes) -> None:
        """By a thread, or by the system itself."""
        from cenote.analysis.sources.root_tree.plain_file import fetch_placed

        fetch_placed(url, start, stop, places)

    def frees_lock(self, url: str, columns: Sequence[str], places: bytes) -> bool:
        """Where no column is left to uproot."""
        from cenote.analysis.sources.root_tree.plain_file import are_plain

        return are_plain(url, self.tree, columns, places)
