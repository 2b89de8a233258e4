"""What commands show: tables, progress, problems."""
