"""Read files of Arrow: IPC files, which Feather files are too, and streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, ClassVar

from cenote.analysis.sources.support.byte_files import opened
from cenote.analysis.sources.support.files import is_remote, local_path
from cenote.analysis.sources.support.text_blocks import BlockIndex, BlockSource


class ArrowSource(BlockSource):
    """Reads Arrow IPC files and streams (`.arrow`, `.feather`) by their batches; a file here is mapped, not copied."""

    example: ClassVar[str] = """
    sources:
      events: {kind: arrow}
    """

    def look_through(self, url: str, stamp: str) -> tuple[BlockIndex, Counter[str], str]:
        """The rows of each batch, by its first column; the bytes of columns by the first batch that has rows."""
        with _batches(url, None) as (schema, _, batches):
            first = next((batch for batch in batches if batch.num_rows), None)
        with _batches(url, schema.names[:1]) as (_, _, batches):
            rows = tuple(accumulate((batch.num_rows for batch in batches), initial=0))
        sizes = Counter(
            {name: first.column(name).nbytes * rows[-1] // first.num_rows for name in schema.names} if first else {}
        )
        return BlockIndex(stamp, schema.serialize().to_pybytes(), tuple(range(len(rows))), rows), sizes, ""

    def tables(self, url: str, index: BlockIndex, names: tuple[str, ...]) -> Iterator[Any]:
        """As they are; of a stream, those before are passed over."""
        import pyarrow as pa

        with _batches(url, names, index.starts[0]) as (_, passed, batches):
            for number, batch in enumerate(batches, start=passed):
                if number >= index.starts[-1]:
                    break
                if number >= index.starts[0]:
                    yield pa.Table.from_batches([batch]).select(names)


@contextmanager
def _batches(url: str, names: Sequence[str] | None, first: int = 0) -> Iterator[tuple[Any, int, Iterator[Any]]]:
    """The schema of all columns, and batches of these columns: from the first one that is wanted on where a file can be
    searched, with the number of the one that they begin with."""
    import pyarrow as pa

    with _opened(url) as file:
        try:
            reader, is_stream = pa.ipc.open_file(file), False
        except pa.ArrowInvalid:
            file.seek(0)
            reader, is_stream = pa.ipc.open_stream(file), True
        schema = reader.schema
        if names is not None:
            chosen = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in names])
            file.seek(0)
            reader = (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(file, options=chosen)
        if is_stream:
            yield schema, 0, iter(reader)
        else:
            yield schema, first, (reader.get_batch(number) for number in range(first, reader.num_record_batches))


@contextmanager
def _opened(url: str) -> Iterator[Any]:  # Any: pyarrow publishes no types
    import pyarrow as pa

    if is_remote(url):
        with opened(url) as file:
            yield pa.PythonFile(file)
    else:
        with pa.memory_map(str(local_path(url))) as mapped:
            yield mapped
