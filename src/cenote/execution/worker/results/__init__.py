"""Results of tasks on disk: stored under content hashes, sealed, found again."""
