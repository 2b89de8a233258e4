"""The real engine with a simulated runtime: faults by the thousand, from a seed, in no time."""
