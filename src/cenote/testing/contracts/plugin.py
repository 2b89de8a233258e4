"""Check what every plugin promises, whatever its kind: it is complete, documented, strict, and able to travel."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from cenote.language.plugins.settings import Plugin, Settings, meanings
from cenote.language.yaml.source import parse_yaml


class PluginContract:
    """The part of the contract that is the same for all kinds. Derive from the contract of your kind."""

    plugin: ClassVar[type[Any]]
    """The class to be tested."""
    cases: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Settings to try besides those of its example."""

    def settings_in(self, example: Any) -> Mapping[str, Any]:  # noqa: ARG002  # for kinds with settings in an example
        """The plugin's own settings in its example, which YAML has read."""
        return {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run every test that takes the plugin as `made`, or as `given`, for each of the settings."""
        for name in {"made", "given"} & {*metafunc.fixturenames}:
            cases = [*self._settings_of_example(), *self.cases] or [{}]
            metafunc.parametrize(name, cases, indirect=True, ids=[str(number) for number in range(len(cases))])

    def _settings_of_example(self) -> Iterator[Mapping[str, Any]]:
        own = vars(self.plugin).get("example", "")
        if own:
            read = parse_yaml(inspect.cleandoc(own), file=None, layer="example")
            assert read.root is not None, f"the example of {self.plugin.__name__} is not YAML: {read.problems}"
            yield self.settings_in(read.root.plain())

    @pytest.fixture
    def made(self, request: pytest.FixtureRequest) -> Any:
        """The plugin with its settings."""
        return self.plugin.model_validate(request.param)

    @pytest.fixture
    def given(self, request: pytest.FixtureRequest) -> Any:
        """Its settings, before anything is made of them."""
        return self.plugin.model_validate(request.param)

    def test_it_has_every_method_of_its_kind(self) -> None:
        assert issubclass(self.plugin, Plugin)
        assert getattr(self.plugin, "__abstractmethods__", frozenset()) == frozenset()

    def test_it_and_every_setting_are_documented(self) -> None:
        assert self.plugin.__doc__
        assert list(_undocumented(self.plugin)) == []

    def test_unknown_settings_are_refused(self) -> None:
        with pytest.raises(ValueError, match="no_such_setting"):
            self.plugin.model_validate({"no_such_setting": []})

    def test_it_travels_to_other_processes(self, made: Any) -> None:
        assert pickle.loads(pickle.dumps(made)) == made


def _undocumented(model: type[Settings]) -> Iterator[str]:
    """Settings without a docstring below them, also of mappings within."""
    yield from (f"{model.__name__}.{name}" for name in model.model_fields.keys() - meanings(model).keys())
    for field in model.model_fields.values():
        if inspect.isclass(field.annotation) and issubclass(field.annotation, Settings):
            yield from _undocumented(field.annotation)
