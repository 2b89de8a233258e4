"""Operations of this analysis: the workflow names this file under `plugins`."""

import numpy as np

from cenote import Events, operation


@operation("custom.speed", reads=["kilometres", "minutes"], adds=["speed"])
def speed(events: Events, *, detour: float = 1.15) -> dict[str, np.ndarray]:
    """Speed in km/h, as the crow flies times the usual detour."""
    return {"speed": detour * events["kilometres"] / (events["minutes"] / 60.0)}
