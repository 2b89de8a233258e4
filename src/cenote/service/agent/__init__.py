"""The agent: runs instances of tasks as child processes on a node. Light, because it starts on every node."""
