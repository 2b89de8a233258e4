"""Keep compiled templates where Python keeps compiled modules: compiling them takes longer than filling them."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from jinja2.bccache import Bucket, BytecodeCache

from cenote.common import storage
from cenote.common.errors import CenoteError
from cenote.common.software import installed_versions


class CompiledTemplates(BytecodeCache):
    """A file for each template, in `__pycache__` beside it; where none can be written, it is compiled every time."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """What is there, if it was made of the same text."""
        with suppress(Exception), _file(bucket).open("rb") as file:  # a damaged file may raise anything
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """For the next process."""
        if not sys.dont_write_bytecode:
            with suppress(OSError, CenoteError), storage.appearing(_file(bucket)) as temporary:
                temporary.write_bytes(bucket.bytecode_to_string())

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """The template's own file."""
        return filename or name


def _file(bucket: Bucket) -> Path:
    """As of a module, of this version of Python; its name also tells the version of Jinja2."""
    return Path(cache_from_source(f"{bucket.key}.py", optimization=_jinja2()))


@cache
def _jinja2() -> str:
    version = installed_versions(["jinja2"])["jinja2"]
    return "jinja" + re.sub(r"\W", "", version or "")
