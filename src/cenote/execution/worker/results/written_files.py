"""Keep the record of the files that runs wrote into a folder: those, and no others, may be removed again."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from cenote.common import storage

_FOLDER = "written"


class WrittenFiles:
    """The files that runs left below the folder of a run, and the product that each belongs to.

    Every process appends to a list of its own, so that lines of several machines are never mixed. A file is noted
    before it is written: what was noted may not be there. Skims are noted once more with a digest of what was written,
    so that a file that a later run wrote again is not taken for one that somebody changed.
    """

    def __init__(self, store: Path) -> None:
        self._run = store.parent
        self._lists = store / _FOLDER

    def note(self, product: str, *files: Path, digest: str = "") -> None:
        """These files are a product's; `digest` is that of the content, where it is known."""
        self._lists.mkdir(parents=True, exist_ok=True)
        lines = [self._line(product, file, digest) for file in files]
        with (self._lists / f"{socket.gethostname()}-{os.getpid()}").open("a", encoding="utf-8") as list_:
            list_.write("".join(lines))

    def products(self) -> dict[Path, str]:
        """File → the product that it belongs to. Lines that are damaged, and names that lead out of the run's folder,
        are passed over."""
        return {file: product for file, (product, _) in self._noted().items()}

    def digests(self) -> dict[Path, str]:
        """File → the digest of what was written there last, where one was noted."""
        return {file: digest for file, (_, digest) in self._noted().items() if digest}

    def _noted(self) -> dict[Path, tuple[str, str]]:
        """File → its product and digest."""
        found: dict[Path, tuple[str, str]] = {}
        for line in (line for file in self._all_lists() for line in file.read_bytes().splitlines()):
            with suppress(ValueError, TypeError, RecursionError):
                product, name, *digest = json.loads(line)
                parts = Path(name).parts
                named = isinstance(product, str) and b"\0" not in os.fsencode(name)
                if named and len(parts) > 1 and ".." not in parts and not Path(name).is_absolute():
                    file = self._run / name
                    found[file] = (product, str(digest[0]) if digest else found.get(file, ("", ""))[1])
        return found

    def _line(self, product: str, file: Path, digest: str) -> str:
        return json.dumps([product, os.path.relpath(file, self._run), *([digest] if digest else [])]) + "\n"

    def remove(self, files: Iterable[Path]) -> None:
        """Remove these files, and folders that are empty then; what is gone already is not an error.

        What a link below `products/` or `plots/` leads to is not the run's, whatever the record says.
        """
        for file in files:
            folders = file.relative_to(self._run).parents[:-2]
            if any((self._run / folder).is_symlink() for folder in folders):
                continue  # it lies elsewhere
            with suppress(OSError):
                file.unlink()
            for folder in folders:
                with suppress(OSError):  # not empty
                    (self._run / folder).rmdir()

    def replace(self, products: Mapping[Path, str]) -> None:
        """Make the record this one: one list instead of many."""
        old, digests = self._all_lists(), self.digests()
        lines = [self._line(product, file, digests.get(file, "")) for file, product in products.items()]
        whole = storage.write_text(self._lists / "all", "".join(lines))
        for other in old:
            if other != whole:
                other.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove every file of the record, and the record."""
        self.remove(self.products())
        for one in self._all_lists():
            one.unlink(missing_ok=True)
        with suppress(OSError):
            self._lists.rmdir()

    def _all_lists(self) -> list[Path]:
        """The oldest first: what was written last counts."""
        found = [file for file in self._lists.glob("*") if file.is_file()]
        return sorted(found, key=lambda file: (file.stat().st_mtime, file.name))
