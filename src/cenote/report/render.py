"""Fill the templates of this folder. Text is escaped unless a template made it: what a user wrote never becomes a tag.

Jinja2 is imported when the first page is made, so that commands without one do not pay for it.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cenote.common.text import FAILURE_CAUSES, format_amounts, plural
from cenote.common.units import format_bytes, format_count, format_seconds
from cenote.execution.runs.look import LOOK
from cenote.execution.runs.view.pool_words import pool_word

if TYPE_CHECKING:
    from jinja2 import Environment


TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: object) -> str:
    """A whole template."""
    return _environment().get_template(template).render(values).strip() + "\n"


def render_part(template: str, part: str, **values: object) -> str:
    """One macro of a template."""
    return str(getattr(_environment().get_template(template).module, part)(**values))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from cenote.report.compiled_templates import CompiledTemplates

    found = Environment(
        bytecode_cache=CompiledTemplates(),
        loader=FileSystemLoader([TEMPLATES, LOOK]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return with_words(found)


def with_words(found: Environment) -> Environment:
    """With filters that write numbers as people do."""
    found.filters |= {
        "amounts": format_amounts,
        "bytes": format_bytes,
        "clock": clock,
        "grouped": grouped,
        "seconds": format_seconds,
        "short": format_count,
    }
    found.globals |= {"causes": FAILURE_CAUSES, "plural": plural, "pool_word": pool_word}
    return found


def grouped(number: float) -> str:
    """`1 234 567`."""
    return f"{number:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def clock(text: str) -> str:
    """`2026-03-01T12:00:00.250Z` as people read it; anything else as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = " UTC" if moment.utcoffset() is not None and not moment.utcoffset() else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{zone}"
