"""Studies: small random analyses with their code and their data, random edits of them, and what their runs leave."""
