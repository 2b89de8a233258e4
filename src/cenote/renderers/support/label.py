"""Write the experiment's label: its name, `Preliminary` and the like, luminosity and energy.

The places and weights are those of mplhep, whose own function would draw the figure once more and ask pyplot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from cenote.renderers.support.style import ExperimentStyle, look_of
from cenote.values import dataclass

if TYPE_CHECKING:  # for annotations only: the import would cost half a second
    from matplotlib.axes import Axes
    from matplotlib.text import Text

_FRAME = "axes fraction"
FULLEST = 0.97
"""How much of the line above the frame texts may take."""
DESCENT = 0.21
"""How far letters reach below their line, as a share of the font size."""


@dataclass(frozen=True)
class LabelLook:
    """Where a label stands by custom, and how it is set."""

    place: Literal["above", "inside", "inside, luminosity below"] = "above"
    name_style: Literal["normal", "italic"] = "normal"
    name_weight: Literal["normal", "bold"] = "bold"
    text_style: Literal["normal", "italic"] = "italic"


LOOKS = {
    "CMS": LabelLook(),
    "ATLAS": LabelLook("inside, luminosity below", name_style="italic", text_style="normal"),
    "LHCb": LabelLook("inside", name_weight="normal", text_style="normal"),
    "ALICE": LabelLook("inside", text_style="normal"),
}
PLAIN = LabelLook(name_weight="normal")


def write_label(axes: Axes, style: ExperimentStyle, *, points: float, has_data: bool, above: bool) -> list[Text]:
    """Write it in fonts of about this many points. Returns the texts that stand inside the frame."""
    nobody = style.experiment in ("none", "ROOT")
    look = PLAIN if nobody else LOOKS.get(look_of(style.experiment), LabelLook())
    inside = look.place != "above" and not above
    name = style.experiment
    text = style.label
    if look is PLAIN:
        name, text = style.label, ""
    elif not has_data:
        text = f"Simulation {text}".strip()
    shown = _name_and_text(axes, look, name, text, points=points, inside=inside)
    below = look.place == "inside, luminosity below" and inside
    conditions = conditions_below(style) if below else conditions_above(style)
    if conditions and below:
        shown.append(_text(axes, conditions, (0, 0), shown[0], (0, -0.3 * points), va="top", fontsize=0.85 * points))
    elif conditions:
        last = _text(axes, conditions, (1.0, 1.0), _FRAME, (0, 0.25 * points), ha="right", fontsize=0.85 * points)
        if not inside:
            _keep_apart(axes, shown, last)
    return shown if inside else []


def _keep_apart(axes: Axes, left: Sequence[Text], right: Text) -> None:
    """Shrink what stands above the frame on one line until it fits there."""
    canvas: Any = axes.figure.canvas
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in (*left, right)]
    needed = boxes[-1].width + max((box.x1 for box in boxes[:-1]), default=axes.bbox.x0) - axes.bbox.x0
    if needed > FULLEST * axes.bbox.width:
        for text in (*left, right):
            text.set_fontsize(float(text.get_fontsize()) * FULLEST * axes.bbox.width / needed)


def _name_and_text(axes: Axes, look: LabelLook, name: str, text: str, *, points: float, inside: bool) -> list[Text]:
    if not name:
        return []
    big = 1.25 * points if look is not PLAIN else points
    font = {"fontsize": big, "fontweight": look.name_weight, "fontstyle": look.name_style}
    if inside:
        first = _text(axes, name, (0.05, 0.95), _FRAME, (0, 0), va="top", **font)
    else:
        first = _text(axes, name, (0.0, 1.0), _FRAME, (0, 0.25 * points), **font)
    if not text:
        return [first]
    beside = (0.3 * points, DESCENT * (big - points))
    return [first, _text(axes, text, (1, 0), first, beside, fontsize=points, fontstyle=look.text_style)]


def _text(
    axes: Axes, text: str, at: tuple[float, float], within: Any, offset: tuple[float, float], **look: Any
) -> Text:  # Any: what matplotlib takes
    """Text so many points away from a place within the frame, or within another text."""
    look = {"ha": "left", "va": "bottom", **look}
    return axes.annotate(text, at, xycoords=within, xytext=offset, textcoords="offset points", **look)


def conditions_above(style: ExperimentStyle) -> str:
    """`138 fb⁻¹, 2018 (13 TeV)`, as far as it is known."""
    known = [part for part in (_luminosity(style), _short(style.year)) if part]
    energy = [f"({_energy(style)})"] if style.com is not None else []
    return " ".join([", ".join(known), *energy]).strip()


def conditions_below(style: ExperimentStyle) -> str:
    """`√s = 13 TeV, 138 fb⁻¹`, as far as it is known."""
    energy = rf"$\sqrt{{s}}$ = {_energy(style)}" if style.com is not None else None
    return ", ".join(part for part in (energy, _luminosity(style), _short(style.year)) if part)


def _luminosity(style: ExperimentStyle) -> str | None:
    if style.lumi is None:
        return None
    text = _short(style.lumi) or ""
    return text if "b" in text else rf"{text} $\mathrm{{fb^{{-1}}}}$"


def _energy(style: ExperimentStyle) -> str:
    text = _short(style.com) or ""
    return text if "eV" in text else f"{text} TeV"


def _short(value: float | str | None) -> str | None:
    return f"{value:g}" if isinstance(value, int | float) else value
