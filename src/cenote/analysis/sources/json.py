"""Read JSON files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from cenote.analysis.sources.support.text_blocks import TextSource

LONGEST_ROW = 16_000_000
"""Bytes. What has no end of a line by then has none at all."""


class JsonSource(TextSource):
    """Reads JSON files, compressed ones (`.gz`, `.bz2`, `.zst`) too: a mapping per line, a list of mappings, or a
    mapping of columns.

    Of lines, tasks read their part, as with `csv`. Lists and mappings of columns are always read whole, and take many
    times their size in memory: write large ones as lines.
    """

    example: ClassVar[str] = """
    sources:
      trips: {kind: json}
    """

    def parse(self, text: bytes, names: Sequence[str] | None) -> Any:
        """Lines by pyarrow; a file that is something else by Python."""
        return self._table(text, None, may_be_whole=names is None)

    def parse_as(self, text: bytes, schema: Any, columns: Sequence[str], *, first: bool) -> Any:
        """Other columns are passed over."""
        import pyarrow as pa

        wanted = pa.schema([schema.field(name) for name in columns])
        return self._table(text, wanted, may_be_whole=first).select(columns)

    def _table(self, text: bytes, schema: Any, *, may_be_whole: bool) -> Any:
        import pyarrow as pa
        from pyarrow import json as lines

        if may_be_whole and not _are_lines(text):
            found = _rows_or_columns(text)
            return pa.Table.from_pylist(found) if isinstance(found, list) else pa.table(found)
        return lines.read_json(
            pa.BufferReader(text),
            read_options=lines.ReadOptions(use_threads=False, block_size=len(text)),
            parse_options=lines.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
            ),
        )

    def merged(self, schemas: Sequence[Any]) -> Any:
        """Whole numbers become doubles, and times texts, where only some rows have them."""
        import pyarrow as pa

        try:
            return pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowTypeError:
            texts = [pa.schema([pa.field(one.name, _without_times(one.type)) for one in schema]) for schema in schemas]
            return pa.unify_schemas(texts, promote_options="permissive")

    def row_end(self, text: bytes) -> int | None:
        """After a line, two at the least: one alone may be all of the file. None where there are no lines."""
        end = text.rfind(b"\n") + 1
        if not _are_lines(text):
            return None if end or len(text) > LONGEST_ROW else 0
        return end if b"\n" in text[:end].strip() else 0


def _are_lines(text: bytes) -> bool:
    """Whether it is a mapping per line, and more than one."""
    first, _, rest = text.lstrip().partition(b"\n")
    if not first.startswith(b"{") or not rest.strip():
        return False
    try:
        return isinstance(json.loads(first), dict)
    except ValueError:
        return False


def _rows_or_columns(text: bytes) -> list[dict[str, Any]] | dict[str, list[Any]]:
    found = json.loads(text)
    if isinstance(found, list) and all(isinstance(row, dict) for row in found):
        return found
    if isinstance(found, dict):
        return found if all(isinstance(values, list) for values in found.values()) else [found]
    raise ValueError("it holds neither rows nor columns: a list of mappings would be rows")


def _without_times(kind: Any) -> Any:
    """The same type, with texts where Arrow takes texts for times."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _without_times(one.type)) for one in kind])
    return kind
