"""Keep the record of the files that runs wrote into a folder: those, and no others, may be removed again."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from cenote import storage

_FOLDER = "written"


class WrittenFiles:
    """The files that runs left below the folder of a run, and the product that each belongs to.

    Every process appends to a list of its own, so that lines of several machines are never mixed. A file is noted
    before it is written: what was noted may not be there.
    """

    def __init__(self, store: Path) -> None:
        self._run = store.parent
        self._lists = store / _FOLDER

    def note(self, product: str, *files: Path) -> None:
        """These files are a product's."""
        self._lists.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps([product, os.path.relpath(file, self._run)]) + "\n" for file in files]
        with (self._lists / f"{socket.gethostname()}-{os.getpid()}").open("a", encoding="utf-8") as list_:
            list_.write("".join(lines))

    def products(self) -> dict[Path, str]:
        """File → the product that it belongs to. Names that lead out of the run's folder are passed over."""
        found: dict[Path, str] = {}
        for line in (line for file in self._all_lists() for line in file.read_text(encoding="utf-8").splitlines()):
            with suppress(ValueError, TypeError):
                product, name = json.loads(line)
                parts = Path(name).parts
                if len(parts) > 1 and ".." not in parts and not Path(name).is_absolute():
                    found[self._run / name] = product
        return found

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
        old = self._all_lists()
        lines = [json.dumps([product, os.path.relpath(file, self._run)]) + "\n" for file, product in products.items()]
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
