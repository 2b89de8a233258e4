"""The source `workshop.parquet`: `parquet` under the name that FAST-HEP's workshop has for it."""

from __future__ import annotations

from typing import ClassVar

from cenote.analysis.sources.parquet import ParquetSource


class WorkshopParquet(ParquetSource):
    """The same as `parquet`."""

    example: ClassVar[str] = """
    sources:
      planets: {kind: workshop.parquet}
    """
