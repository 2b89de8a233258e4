"""Turn output that comes in pieces into text."""

from __future__ import annotations

import codecs


class ShownOutput:
    """How much of one output was shown. A piece may end within a character, whose rest comes with the next."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes that came so far: where the next piece begins."""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def text_of(self, piece: bytes, *, last: bool = False) -> str:
        """The next characters."""
        self.size += len(piece)
        return self._decoder.decode(piece, final=last)
