"""Import awkward and other large packages when they are first used, without what they bring along.

`from cenote.common.arrays import ak` costs nothing. A workflow of plain numbers never pays for awkward, and planning
does not.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

# Import large packages without what they bring along for a few of their functions, which is imported when used.


_LATER: Mapping[str, Mapping[str, Collection[str]]] = {
    "awkward": {
        "importlib.metadata": (),
        "importlib_metadata": (),
        "fsspec": (),
        "fsspec.parquet": (),
        "awkward._connect.pyarrow": ("convert_awkward_arrow_table_to_native",),
    },
    "hist": {"histoprint": ()},
    "pydantic.plugin._loader": {"importlib.metadata": ("entry_points",)},
}
"""Package → modules that it imports at once, and uses in a few functions only (pyarrow and asyncio come with those of
awkward); with the functions that it takes out of them.

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


def later(name: str) -> Any:  # Any: a module
    """What stands for a package until the first time that something of it is asked for."""
    return _Package(name)


class _Package:
    """The package, in all but its type."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:  # Any: whatever the package holds
        found = getattr(imported(self.__name__), name)
        if not name.startswith("_"):
            setattr(self, name, found)  # the next time it is there
        return found


def _imported_alone(name: str) -> ModuleType:
    absent = {one: taken for one, taken in _LATER.get(name, {}).items() if one not in sys.modules}
    later = {
        one: _Later(one, taken, [other for other in absent if _is_in(other, one)]) for one, taken in absent.items()
    }
    for one, module in later.items():
        sys.modules[one] = module
        _stay_within(module)
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


def _is_in(name: str, package: str) -> bool:
    return name.startswith(f"{package}.")


class _Later(ModuleType):
    """Stands where a module would be until something of it is used."""

    def __init__(self, name: str, taken: Collection[str], below: Collection[str]) -> None:
        super().__init__(name)
        self._taken, self._below = taken, below
        if taken:  # `from module import something` asks for it
            self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:  # Any: whatever the module holds
        if name in self._taken:
            return lambda *values, **named: self.found(name)(*values, **named)
        return self.found(name)

    def found(self, name: str) -> Any:  # Any: whatever the module holds
        """Something of the module itself, which is imported by now, with what else was imported of it."""
        for one in (self.__name__, *self._below):
            if isinstance(sys.modules.get(one), _Later):
                del sys.modules[one]
        module = import_module(self.__name__)
        for one in self._below:
            import_module(one)
        return getattr(module, name)


_NAME = "awkward"
ak = later(_NAME)
"""The module awkward."""


def is_awkward(value: Any) -> bool:  # Any: any column
    """Whether it is an array of awkward; where nobody has imported that, nothing is."""
    return _NAME in sys.modules and isinstance(value, ak.Array)
