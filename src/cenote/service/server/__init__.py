"""Own pools that outlive runs, and a queue of tasks for them."""
