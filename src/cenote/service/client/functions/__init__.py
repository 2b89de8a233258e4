"""Functions on pools: calls travel to instances of tasks, and what they return or raise comes back."""
