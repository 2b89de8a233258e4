"""Products: what leaves a run. One file per kind: how its parts merge, and the open formats it is saved in."""
