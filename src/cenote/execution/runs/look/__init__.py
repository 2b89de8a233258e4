"""How runs and pools look on every page: the colours that the report and the page of the service share."""

from pathlib import Path

LOOK = Path(__file__).parent
COLOURS = LOOK / "colours.css"
