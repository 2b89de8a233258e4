"""Write HTML. Text is escaped unless it was made here, so that nothing a user wrote becomes a tag."""

from __future__ import annotations

import html
from collections.abc import Iterable

VOID = frozenset({"img", "meta", "br", "col", "link", "hr"})
"""Elements that have no end tag."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | Markup | None
Attribute = str | int | bool | None


def element(tag: str, *children: Child | Iterable[Child], **attributes: Attribute) -> Markup:
    """One element. `class_` and `data_value` become `class` and `data-value`; false and None leave one out."""
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{joined(*children)}</{tag}>")


def joined(*children: Child | Iterable[Child]) -> Markup:
    """Pieces one after the other, escaped where they are not HTML yet."""
    return Markup("".join(_flat(child) for child in children))


def _flat(child: Child | Iterable[Child]) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return html.escape(child, quote=False)
    return "".join(_flat(one) for one in child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
