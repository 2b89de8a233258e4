"""Sources: where events come from. One file each."""
