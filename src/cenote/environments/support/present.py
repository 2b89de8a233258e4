"""Share what environments have in common that nodes have already: only code is sent beside them."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from cenote.environments.support.on_node import alone_on_node, script_lines, unpacked_on_node
from cenote.environments.support.with_code import EnvironmentWithCode, described_code
from cenote.launch import Launch, SentFile, Word
from cenote.packing.archive import Archive, Compression
from cenote.packing.code import CODE, needed_code
from cenote.packing.progress import Progress
from cenote.packing.software import Software
from cenote.packing.stock import Stock, StockRecord

USE = Path(__file__).with_name("use.sh")
"""What finds and activates software on the node, in the language of every node."""


class PresentEnvironment(EnvironmentWithCode):
    """Software that is on the nodes. Cenote travels beside it where it has another version, or nobody knows which."""

    compression: Compression | None = None
    """Of the code that is sent: `zstd`, or `gzip` as long as nobody asks for more, since every node has that."""

    _code: StockRecord | None = PrivateAttr(None)

    @abstractmethod
    def _software(self) -> Software | None:
        """What is in it; None where this machine cannot tell."""

    @property
    def _compression(self) -> Compression:
        return self.compression or "gzip"

    def prepare(self, progress: Progress) -> None:
        """Pack the code that travels beside it, unless that is done."""
        if code := needed_code(self._software()):
            stock = Stock()
            self._code = self._obtained_code(stock, code, progress)
            self._copied([stock.archive(self._code)], progress)

    def _used_on_node(self, launch: Launch, lines: Sequence[Word]) -> Launch:
        """With these lines, which may use `USE`, and then with the code beside it."""
        launch = alone_on_node(launch, self.variables)
        read = script_lines(USE, "finds its software")
        launch = replace(launch, setup=(*launch.setup, *read, *lines), files=(*launch.files, SentFile(USE)))
        archives = self._as_nodes_see(self._archives())
        return unpacked_on_node(launch, archives, scratch=self.scratch, variables=self.variables)

    def _archives(self) -> list[Archive]:
        if self._code is not None:
            return [Stock().archive(self._code)]
        code = needed_code(self._software())
        known = Stock().find(self._wanted_code(code)) if code else None
        return [Stock().archive(known)] if known else [self._stand_in(CODE)] if code else []

    def _described(self) -> dict[str, Any]:  # Any: for JSON
        return described_code([] if self._code is None else [self._code])


def digest_of(software: Software) -> str:
    """Changes when the version of a package does."""
    lines = [f"python {software.python}", *(f"{name} {version}" for name, version in software.packages.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
