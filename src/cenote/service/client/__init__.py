"""Find a service, talk to it, and use its pools and tasks: what programs see of it."""
