"""List the kinds of plugins and the folder each kind lives in."""

from __future__ import annotations

from enum import Enum


class PluginKind(Enum):
    """A kind of plugin; its value is the word used in YAML, entry points and errors."""

    OPERATION = "operation"
    SOURCE = "source"
    SINK = "sink"
    RENDERER = "renderer"
    MODIFIER = "modifier"
    BACKEND = "backend"
    STRATEGY = "strategy"
    PRODUCT = "product"
    ENVIRONMENT = "environment"
    CREDENTIAL = "credential"

    @property
    def plural(self) -> str:
        """The word for several of them: the name of the folder that the built-in ones live in."""
        return "strategies" if self is PluginKind.STRATEGY else f"{self.value}s"

    def spelled(self, name: str) -> str:
        """The name in YAML of a plugin whose module has this name: `packed_pixi` is the environment `packed-pixi`."""
        return name.replace("_", "-") if self is PluginKind.ENVIRONMENT else name

    @property
    def package(self) -> str:
        """The package whose files are the built-in plugins of this kind; entry-point group of installed ones."""
        return f"cenote.{self.plural}"


NOT_PLUGINS = frozenset({"interface", "support"})
"""In a plugin folder: what a plugin of the kind is, and what several of them share."""

PLANNED: dict[PluginKind, dict[str, str]] = {
    PluginKind.CREDENTIAL: {"kerberos": "Kerberos tickets for workers"},
}
"""Names the language knows already, and the later piece of work that makes them run."""
