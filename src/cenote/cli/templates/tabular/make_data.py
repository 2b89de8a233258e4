"""Makes the data of this analysis: bicycle trips of a made-up city. The same numbers every time."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TRIPS = 30_000
"""In each file."""
HABITS = {"weekdays": ((8.0, 17.5), 4.2), "weekends": ((13.0, 16.0), 5.4)}
"""When people ride, and how many minutes they take for a kilometre."""


def write(folder: Path) -> list[Path]:
    """Write the files and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for seed, (name, habits) in enumerate(HABITS.items()):
        for number in range(2):
            paths.append(folder / f"{name}_{number}.parquet")
            pq.write_table(trips(np.random.default_rng([seed, number]), *habits), paths[-1])
    return paths


def trips(random: np.random.Generator, rush_hours: tuple[float, float], pace: float) -> pa.Table:
    """One file of trips."""
    start = random.choice(rush_hours, TRIPS) + random.normal(0.0, 1.8, TRIPS)
    kilometres = random.gamma(2.0, 1.7, TRIPS)
    paces = np.clip(random.normal(pace, 0.9, TRIPS), 1.8, None)
    minutes = kilometres * paces + random.exponential(2.0, TRIPS)
    forgotten = random.random(TRIPS) < 0.01
    return pa.table(
        {
            "start": start % 24 + 24 * random.integers(0, 5, TRIPS),
            "kilometres": kilometres,
            "minutes": np.where(forgotten, minutes * 30, minutes),
            "member": random.random(TRIPS) < 0.7,
        }
    )


if __name__ == "__main__":
    for written in write(Path(__file__).parent / "data"):
        print(written)
