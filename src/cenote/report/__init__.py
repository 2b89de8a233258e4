"""The report: one self-contained page about a run, made from the files that the run left."""
