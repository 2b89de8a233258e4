"""Resolve styles: `use` inherits, `with` changes, and what is left are a renderer's settings."""

from __future__ import annotations

from cenote.common import errors
from cenote.language.checks.findings import Findings
from cenote.language.layers.profiles import merge
from cenote.language.yaml.source import Located


class Styles:
    """The styles of a file, each resolved once."""

    def __init__(self, node: Located | None, findings: Findings) -> None:
        self._written = node.mapping if node else {}
        self._findings = findings
        self._resolved: dict[str, Located | None] = {}
        for name, style in self._written.items():
            self.named(style.holding(name))

    def named(self, name: Located, trail: tuple[str, ...] = ()) -> Located | None:
        """The style of this name with everything it inherits; None (and a problem) where it cannot be had."""
        key = name.text or ""
        if key in trail:
            circle = " → ".join([*trail[trail.index(key) :], key])
            self._findings.report(errors.INCLUDE_CYCLE, f"styles use each other in a circle: {circle}", name)
            return None
        if key not in self._written:
            self._findings.report_unknown(
                errors.BAD_VALUE, f"there is no style '{key}'", name, self._written, what="styles"
            )
            return None
        if key not in self._resolved:
            resolved = self.expanded(self._written[key], (*trail, key))
            # Inside a circle only part of a style is seen: such a result must not be kept.
            if trail:
                return resolved
            self._resolved[key] = resolved
        return self._resolved[key]

    def expanded(self, node: Located, trail: tuple[str, ...] = ()) -> Located:
        """This value with every `use` and `with` inside it carried out."""
        if isinstance(node.value, list):
            return node.holding([self.expanded(item, trail) for item in node.value])
        if not isinstance(node.value, dict):
            return node
        own = {key: self.expanded(child, trail) for key, child in node.value.items() if key not in ("use", "with")}
        result, use, changes = node.holding(own), node.get("use"), node.get("with")
        if use is not None and use.text is not None:
            base = self.named(use, trail)
            result = merge(base, result) if base is not None else result
        if changes is not None and changes.mapping:
            result = merge(result, self.expanded(changes, trail))
        return result

    def of_render(self, entry: Located) -> Located | None:
        """Everything that a `render` entry says to its renderer, `op` and `out` included; None without its style."""
        if entry.text is not None:
            return self.named(entry)
        style = entry.get("style")
        content = {key: child for key, child in entry.mapping.items() if key not in ("style", "when", "from")}
        if style is None:
            return self.expanded(entry.holding(content))
        if style.text is not None:
            base = self.named(style)
        elif "op" in content and not {"op", "use", "with"} & set(style.mapping):
            return self.expanded(entry.holding({**content, "style": style}))
        else:
            base = self.expanded(style)
        inline = self.expanded(entry.holding(content))
        return merge(base, inline) if base is not None else None
