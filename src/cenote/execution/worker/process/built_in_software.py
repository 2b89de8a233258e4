"""What tasks of most runs use, for warm processes that do not know which run they are for."""

from __future__ import annotations

from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind

_ON_WORKERS = (
    PluginKind.SOURCE,
    PluginKind.OPERATION,
    PluginKind.MODIFIER,
    PluginKind.PRODUCT,
    PluginKind.SINK,
)


def warm_up() -> None:
    """Import every plugin that comes with the package and runs on workers, with what its methods use."""
    for kind in _ON_WORKERS:
        for name in registry.built_in_names(kind):
            registry.load(kind, name).warm_up()
