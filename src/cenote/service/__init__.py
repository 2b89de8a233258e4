"""Pools that outlive runs, and a queue of tasks for them: client, server, agents, page."""
