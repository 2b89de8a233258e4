"""Operations of this analysis: the workflow names this file under `plugins`."""

from cenote import operation


@operation("custom.speed", reads=["kilometres", "minutes"], adds=["speed"])
def speed(events, *, detour: float = 1.15):
    """Speed in km/h, as the crow flies times the usual detour."""
    return {"speed": detour * events["kilometres"] / (events["minutes"] / 60.0)}
