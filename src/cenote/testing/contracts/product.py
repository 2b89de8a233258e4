"""Check kinds of products: merged in any grouping, saved and loaded equal, shown in a line and in tables."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.products.interface import Product
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.testing.contracts.plugin import PluginContract


class ProductContract(PluginContract):
    """`plugin` is the kind of product; `parts` are values of it, as partitions would make them."""

    plugin: ClassVar[type[Product]]

    def parts(self) -> Sequence[Any]:
        """Values that can be merged: equal ones at every call. A single one where values of this kind never merge."""
        raise NotImplementedError(f"give some values of {self.plugin.__name__}: override `parts`")

    def equal(self, left: Any, right: Any) -> bool:
        """Whether two values are the same."""
        return bool(left == right)

    def test_a_single_part_comes_back_equal(self, made: Product) -> None:
        assert all(self.equal(made.merge([part]), part) for part in self.parts())

    def test_parts_may_be_merged_in_any_grouping(self, made: Product) -> None:
        first, *rest = self.parts()
        if not rest:
            pytest.skip("values of this kind do not merge")
        whole = made.merge(self.parts())
        assert self.equal(made.merge([first, made.merge(rest)]), whole)
        assert self.equal(made.merge([made.merge([first, *rest[:-1]]), rest[-1]]), whole)

    def test_merging_leaves_the_parts_alone(self, made: Product) -> None:
        parts = self.parts()
        made.merge(parts)
        assert all(self.equal(used, untouched) for used, untouched in zip(parts, self.parts(), strict=True))

    def test_what_is_saved_is_loaded_equal(self, made: Product, tmp_path: Path) -> None:
        value = made.merge(self.parts())
        for _ in range(2):
            files = made.save(value, tmp_path, "Stage")
        assert sorted(files) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
        assert all(path.name.startswith("Stage") for path in files)
        assert self.equal(made.load(tmp_path, "Stage"), value)

    def test_values_travel_between_processes(self) -> None:
        assert all(self.equal(pickle.loads(pickle.dumps(part)), part) for part in self.parts())

    def test_it_is_described_in_one_line(self, made: Product) -> None:
        assert made.describe(made.merge(self.parts()))
        assert "\n" not in made.describe(made.merge(self.parts()))

    def test_it_is_shown_as_it_says(self, made: Product) -> None:
        value = made.merge(self.parts())
        short = made.short_table(value)
        tables = [*made.tables(value), *([short] if short else [])]
        assert bool(tables) == made.tabular
        for table in tables:
            assert all(len(row) == len(table.columns) for row in table.rows)
        usual = made.default_renderer(ProductShape(None))
        assert usual is None or usual in registry.names(PluginKind.RENDERER)
