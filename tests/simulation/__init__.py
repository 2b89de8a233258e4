"""The engine under simulated faults: `PYTHONPATH=tests python -m simulation --seeds 100000`."""
