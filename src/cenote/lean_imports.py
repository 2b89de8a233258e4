"""Import large packages without what they bring along for a few of their functions, which is imported when used."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

_METADATA: Mapping[str, Collection[str]] = {"importlib.metadata": (), "importlib_metadata": ()}
_LATER: Mapping[str, Mapping[str, Collection[str]]] = {
    "awkward": {
        **_METADATA,
        "fsspec": (),
        "fsspec.parquet": (),
        "awkward._connect.pyarrow": ("convert_awkward_arrow_table_to_native",),
    },
    "hist": {**_METADATA, "histoprint": ()},
    "uproot": {},
    "pydantic.plugin._loader": {"importlib.metadata": ("entry_points",)},
}
"""Package → modules that it imports at once, and uses in a few functions only (pyarrow and asyncio come with those of
awkward); with what it takes out of them, which must be functions.

True for awkward 2.14, hist 2.12 and pydantic 2.14. What another version asks of them at once, it gets at once."""
_FIRST = {"uproot": "awkward"}
"""Package → one that it imports itself, with all that this brings along."""
_importing = threading.RLock()
"""Tasks run in several threads, where imports that meet can fail."""


def imported(name: str) -> ModuleType:
    """A package, without what it will hardly use."""
    with _importing:
        if name in sys.modules:
            return import_module(name)
        if name in _FIRST:
            imported(_FIRST[name])
        return _imported_alone(name)


def _imported_alone(name: str) -> ModuleType:
    later = {one: _Later(one, functions) for one, functions in _LATER[name].items() if one not in sys.modules}
    sys.modules.update(later)
    try:
        return import_module(name)
    finally:
        for one, module in later.items():
            if sys.modules.get(one) is module:
                del sys.modules[one]
                _stay_within(module)


def _stay_within(module: _Later) -> None:
    """`import a.b` has bound `a`, whose attribute `b` is used later."""
    above, _, own = module.__name__.rpartition(".")
    if above in sys.modules:
        setattr(sys.modules[above], own, module)


class _Later(ModuleType):
    """Stands where a module would be until something of it is used."""

    def __init__(self, name: str, functions: Collection[str]) -> None:
        super().__init__(name)
        self._functions = functions
        if functions:  # `from module import function` asks for it
            self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:  # Any: whatever the module holds
        return _called_later(self, name) if name in self._functions else self.found(name)

    def found(self, name: str) -> Any:  # Any: whatever the module holds
        """Something of the module itself, which is imported by now."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = import_module(self.__name__)
        return getattr(module, name) if hasattr(module, name) else import_module(f"{self.__name__}.{name}")


def _called_later(module: _Later, name: str) -> Callable[..., Any]:
    def called(*values: Any, **named: Any) -> Any:
        return module.found(name)(*values, **named)

    return called
