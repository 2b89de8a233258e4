"""Run cells in a real kernel and prints, as JSON, every message that displays something."""

from __future__ import annotations

import json
import sys
from typing import Any

import nbformat
from nbclient import NotebookClient


class Listening(NotebookClient):  # type: ignore[misc]  # nbclient publishes no types
    """Keeps what the kernel sends, where a notebook keeps only the last state of each display."""

    sent: list[dict[str, Any]]

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """Take a message of the kernel."""
        if msg["msg_type"] in ("display_data", "update_display_data", "execute_result", "stream", "error"):
            self.sent.append({"cell": cell_index, "type": msg["msg_type"], **msg["content"]})
        return super().process_message(msg, cell, cell_index)


cells = json.load(sys.stdin)
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
client = Listening(notebook, timeout=300, kernel_name="python3", allow_errors=True)
client.sent = []
client.execute()
sys.stdout.write(json.dumps(client.sent) + "\n")
