"""Prepare the paper and put pictures on disk: experiment styles, labels, marks, files.

Matplotlib is imported inside the functions, so that naming a renderer costs nothing; pyplot is never used, so that
a notebook's own figures and settings stay as they are.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cenote.analysis.renderers.support.style import ExperimentStyle, FigureStyle, Format, look_of
from cenote.common import errors, storage
from cenote.common.values import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text


# Write the experiment's label: its name, `Preliminary` and the like, luminosity and energy.
#
# The places and weights are those of mplhep, whose own function would draw the figure once more and ask pyplot.


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


@dataclass(frozen=True)
class _Look:
    """What mplhep has for an experiment."""

    style: str
    drawn_for: tuple[float, float]
    """The size in inches that the style's fonts are made for."""
    font: float
    """The size of the label in points, for that size of figure."""

    def scale(self, size: tuple[float, float]) -> float:
        """By how much fonts and lines shrink for a figure of this size."""
        return min(size[0] / self.drawn_for[0], size[1] / self.drawn_for[1])


_LOOKS = {
    "CMS": _Look("CMS", (10, 10), 26),
    "ATLAS": _Look("ATLAS", (8, 6), 16),
    "LHCb": _Look("LHCb2", (12, 9), 28),
    "ALICE": _Look("ALICE", (12, 9), 26),
    "ROOT": _Look("ROOT", (10, 10), 26),
    "none": _Look("ROOT", (10, 10), 26),
}
_MORE_COLOURS = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6"),
    *("#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"),
)
"""Ten that people with any colour vision tell apart (Petroff, arXiv:2107.02270)."""
_ROUNDS = ((0.0, 0.0), (1.0, 0.55), (0.0, 0.45))
"""Towards white (1) or black (0) by how much, in each round through the cycle of colours."""
_WITHOUT_DATES = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
}
_DRAWING = threading.RLock()
MARGIN = 0.15
"""White around a picture, in inches."""
_SCALED_ENDINGS = ("size", "pad", "width")


def import_matplotlib() -> None:
    """What the first picture would import: half a second, that may pass beside tasks."""
    import matplotlib.backends.backend_agg
    import matplotlib.style  # noqa: F401
    import mplhep  # noqa: F401


@contextmanager
def styled(style: ExperimentStyle, size: tuple[float, float]) -> Iterator[None]:
    """Within it, figures look like the experiment's, with fonts and lines in proportion to the size.

    One picture of a process at a time: matplotlib's settings and its reader of mathematics are shared by all threads.
    """
    import matplotlib.style
    import mplhep

    look = _LOOKS[look_of(style.experiment)]
    parameters = dict(getattr(mplhep.style, look.style))
    scale = look.scale(size)
    for key, value in parameters.items():
        if isinstance(value, int | float) and key.endswith(_SCALED_ENDINGS) and not _relative(key):
            parameters[key] = value * scale
    parameters.update(_fonts(parameters))
    parameters.update(
        {
            "figure.autolayout": False,
            "xtick.major.pad": max(float(parameters.get("xtick.major.pad", 3.5)), 9 * scale),
            "savefig.bbox": "standard",
            "savefig.format": "png",
            "hatch.linewidth": 0.6,
            "svg.hashsalt": "cenote",
            "axes.autolimit_mode": "data",
        }
    )
    # Matplotlib 3.11 reports each root sign of a font that has no large one, and then draws the ordinary one.
    log = logging.getLogger("matplotlib.mathtext")
    level = log.level
    try:
        log.setLevel(logging.ERROR)
        with _DRAWING, matplotlib.style.context(["default", parameters]), warnings.catch_warnings():
            # A letter that no font has is drawn as a box: nothing that the reader of the log could change.
            warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
            yield
    except ValueError as problem:
        explained = _unreadable(problem)
        if explained is None:
            raise
        raise explained from None
    finally:
        log.setLevel(level)


def _relative(key: str) -> bool:
    """Paddings of the legend count in font sizes already."""
    return key.startswith("legend.") and not key.endswith("fontsize")


def _fonts(parameters: dict[str, Any]) -> dict[str, Any]:
    """The first font of the style that is installed, then one that has nearly every letter."""
    from matplotlib import font_manager

    installed = {name.lower(): name for name in font_manager.get_font_names()}
    family = "serif" if parameters.get("font.family") == "serif" else "sans-serif"
    wished = [str(name).lower() for name in parameters.get(f"font.{family}", [])]
    font = next((installed[name] for name in wished if name in installed), None)
    spare = "DejaVu Serif" if family == "serif" else "DejaVu Sans"
    chosen: dict[str, Any] = {"font.family": [font, spare] if font else [spare]}
    if font is None:
        return chosen | {"mathtext.fontset": "dejavuserif" if family == "serif" else "dejavusans"}
    if parameters.get("mathtext.fontset") == "custom":
        chosen |= {f"mathtext.{kind}": font for kind in ("rm", "sf", "tt", "cal")}
        chosen |= {"mathtext.bf": f"{font}:bold", "mathtext.it": f"{font}:italic"}
    return chosen


def new_figure(size: tuple[float, float], *, heights: Sequence[float] = (1,)) -> tuple[Figure, Any]:
    """A figure that pyplot does not know of, and its panels from top to bottom, as an array with one column."""
    figure = _blank(size)
    spacing = {"height_ratios": list(heights), "hspace": 0.09}
    panels = figure.subplots(len(heights), 1, squeeze=False, sharex="col", gridspec_kw=spacing)
    figure.subplots_adjust(left=0.14, right=0.96, bottom=0.13, top=0.92)
    return figure, panels


def new_grid(size: tuple[float, float], *, rows: int, columns: int) -> tuple[Figure, Any]:
    """A figure with panels side by side, as an array of rows and columns."""
    figure = _blank(size)
    panels = figure.subplots(rows, columns, squeeze=False, gridspec_kw={"hspace": 0.3, "wspace": 0.2})
    figure.subplots_adjust(left=0.14 / columns, right=1 - 0.05 / columns, bottom=0.13 / rows, top=1 - 0.09 / rows)
    return figure, panels


def _blank(size: tuple[float, float]) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size)
    FigureCanvasAgg(figure)
    return figure


def figure_size(figure: FigureStyle, otherwise: tuple[float, float]) -> tuple[float, float]:
    """As written, or the renderer's own."""
    return figure.size or otherwise


def colours(style: ExperimentStyle, many: int) -> list[str]:
    """A colour for each of this many datasets: once all of the cycle are taken, lighter and then darker ones."""
    import matplotlib
    from matplotlib.colors import to_hex, to_rgb

    cycle = list(style.color_cycle)
    if not cycle:
        cycle = [to_hex(entry["color"]) for entry in matplotlib.rcParams["axes.prop_cycle"]]
        cycle = list(_MORE_COLOURS) if many > len(cycle) else cycle
    found = []
    for index in range(many):
        towards, share = _ROUNDS[index // len(cycle) % len(_ROUNDS)]
        parts = [(1 - share) * part + share * towards for part in to_rgb(cycle[index % len(cycle)])]
        found.append(to_hex((parts[0], parts[1], parts[2])) if share else cycle[index % len(cycle)])
    return found


def experiment_label(
    axes: Axes, style: ExperimentStyle, size: tuple[float, float], *, has_data: bool, above: bool = False
) -> list[Text]:
    """The experiment's name and what belongs to it. Returns the texts that stand inside the frame.

    `size` is the one the picture is styled for; `above` keeps the inside free.
    """
    look = _LOOKS[look_of(style.experiment)]
    return write_label(axes, style, points=look.font * look.scale(size), has_data=has_data, above=above)


def mark_partial(figure: Figure) -> None:
    """Say across the picture that some of the data is missing."""
    figure.text(
        *(0.55, 0.5, "PARTIAL"),
        ha="center",
        va="center",
        rotation=25,
        fontsize=min(figure.get_size_inches()) * 9,
        fontweight="bold",
        color="#c1121f",
        alpha=0.28,
        zorder=20,
        gid="partial",
    )


def note(axes: Axes, text: str, *, at: tuple[float, float] = (0.5, 0.5), size: str = "large") -> None:
    """Words within the frame, such as `no entries`."""
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "boxstyle": "round,pad=0.25"}
    look: dict[str, Any] = {"ha": "center", "va": "center", "color": "#666666", "fontsize": size, "bbox": paper}
    axes.text(*at, text, transform=axes.transAxes, zorder=15, **look)


def save(figure: Figure, target: Path, formats: Sequence[Format], *, dpi: int) -> list[Path]:
    """Write the figure once per format; a file is there whole or not at all. Equal figures give equal bytes."""
    page = figure.get_tightbbox().padded(MARGIN)
    written = []
    for kind in formats:
        path = target.with_name(f"{target.name}.{kind}")
        with storage.appearing(path) as unfinished:
            figure.savefig(unfinished, format=kind, dpi=dpi, bbox_inches=page, metadata=_WITHOUT_DATES[kind])
        written.append(path)
    return written


def _unreadable(problem: ValueError) -> errors.CenoteError | None:
    """Mathematics that matplotlib cannot read, in the user's words; None for anything else."""
    lines = [line for line in str(problem).splitlines() if line.strip()]
    if not any(line.startswith("Parse") for line in lines):
        return None
    return errors.error(
        errors.RENDER_FAILED,
        f"a label cannot be drawn: {lines[-1].partition(': ')[2]}",
        details=lines[:-1],
        hint="text between two $ must be mathematics that matplotlib understands",
    )
