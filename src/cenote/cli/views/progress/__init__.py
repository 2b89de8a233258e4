"""What shows how far work is: runs, probes, packing."""
