"""Makes the data of this analysis: bicycle trips of a made-up city. The same numbers every time."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TRIPS = 30_000
"""In each file."""
RUSH_HOURS = {"weekdays": (8.0, 17.5), "weekends": (13.0, 15.0)}


def write(folder: Path) -> list[Path]:
    """Write the files and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for seed, (name, rush_hours) in enumerate(RUSH_HOURS.items()):
        for number in range(2):
            paths.append(folder / f"{name}_{number}.parquet")
            pq.write_table(trips(np.random.default_rng([seed, number]), rush_hours), paths[-1])
    return paths


def trips(random: np.random.Generator, rush_hours: tuple[float, float]) -> pa.Table:
    """One file of trips."""
    start = random.choice(rush_hours, TRIPS) + random.normal(0.0, 1.8, TRIPS)
    kilometres = random.gamma(2.0, 1.7, TRIPS)
    pace = np.clip(random.normal(4.2, 0.9, TRIPS), 1.8, None)
    minutes = kilometres * pace + random.exponential(2.0, TRIPS)
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
