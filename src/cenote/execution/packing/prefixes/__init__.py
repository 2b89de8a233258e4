"""Pack prefixes: find where they name themselves, compile, activate, move."""
