"""Build folders as runs leave them."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cenote.analysis.products.cutflow import Cutflow, CutflowProduct, CutflowRow
from cenote.engine.messages import RunFinished, RunStarted, TaskDone, TaskStarted

MEAN = "<script>alert('x')</script> & \"quotes\" https://example.invalid/x"
"""What a user might write where text is expected."""


def a_png() -> bytes:
    """The smallest picture there is: one white point."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\x00\xff")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


SUMMARY: dict[str, Any] = {
    "status": "partial",
    "run": "4f1c",
    "resumed": True,
    "started": "2026-03-01T12:00:00.250Z",
    "ended": "2026-03-01T12:04:00.000Z",
    "seconds": 239.75,
    "cpu_seconds": 801.2,
    "tasks": {"total": 41, "done": 40, "failed": 1, "reused": 4, "running": 0},
    "retries": 2,
    "events": 2_000_000,
    "bytes_read": 512_000_000,
    "peak_memory": 1_200_000_000,
    "stages": [
        {
            "id": "BuildIndex",
            "op": "custom.build_index",
            "segment": 0,
            "pools": {"high_memory": 20},
            "workers": ["high_memory-0"],
            "tasks": 20,
            "done": 20,
            "failed": 0,
            "reused": 4,
            "seconds": 120.5,
            "events_in": 2_000_000,
            "events_out": 2_000_000,
            "rate": 16_600.0,
            "peak_memory": 1_200_000_000,
        },
        {
            "id": "RunInference",
            "op": "custom.inference",
            "segment": 1,
            "pools": {"gpu": 18, "default": 2},
            "workers": ["gpu-0"],
            "tasks": 20,
            "done": 19,
            "failed": 1,
            "reused": 0,
            "seconds": 480.1,
            "events_in": 2_000_000,
            "events_out": 1_900_000,
            "rate": None,
            "peak_memory": 700_000_000,
        },
    ],
    "pools": [
        {
            "name": "default",
            "strategy": "local",
            "state": "done",
            "workers_started": 2,
            "workers_lost": 0,
            "slots": 1,
            "tasks": 5,
            "slot_seconds_busy": 30.0,
            "slot_seconds_idle": 400.0,
            "cost": None,
        },
        {
            "name": "gpu",
            "strategy": "slurm",
            "state": "done",
            "workers_started": 1,
            "workers_lost": 1,
            "last_loss": "its node was drained",
            "slots": 4,
            "tasks": 18,
            "slot_seconds_busy": 450.0,
            "slot_seconds_idle": 100.0,
            "cost": 0.44,
        },
    ],
    "products": [
        {
            "name": "MuonPt",
            "kind": "histogram",
            "files": ["products/MuonPt.json"],
            "plots": ["plots/MuonPt.png", "plots/MuonPt.pdf"],
            "partial": True,
            "description": "1 axis, 60 bins, 1.2 M entries",
        },
        {"name": "Presel", "kind": "cutflow", "files": ["products/Presel.json"]},
    ],
    "fallbacks": [
        {
            "stage": "RunInference",
            "task": 31,
            "from": "gpu",
            "to": "default",
            "reason": "no worker for 10m",
            "at": "2026-03-01T12:01:00Z",
        }
    ],
    "failures": [
        {
            "stage": "RunInference",
            "task": 33,
            "cause": "error",
            "kind": None,
            "message": "ValueError: the model wants 4 columns, got 3",
            "dataset": "data",
            "file": "data/run_7.root",
            "entries": [0, 100000],
            "traceback": 'Traceback:\n  File "ops.py", line 12, in inference\n    raise ValueError',
            "pool": "gpu",
            "worker": "gpu-0",
            "attempts": 3,
            "at": "2026-03-01T12:02:00Z",
        }
    ],
    "warnings": ["this machine has no GPU: pool 'gpu' runs on the CPU"],
}
PLAN: dict[str, Any] = {
    "workflow": "flow.yaml",
    "backend": "local",
    "digest": "abc123",
    "stages": [
        {
            "id": "BuildIndex",
            "op": "custom.build_index",
            "pools": ["high_memory"],
            "verdict": "yes",
            "reason": "requires high_memory",
            "segment": 0,
            "tasks": 20,
        },
        {
            "id": "RunInference",
            "op": "custom.inference",
            "pools": ["gpu", "default"],
            "verdict": "not now",
            "reason": "prefers gpu",
            "segment": 1,
            "tasks": 20,
        },
    ],
    "pools": [
        {
            "name": "default",
            "strategy": "local",
            "workers": 2,
            "slots": 1,
            "resources": {"cpus": 1, "memory": 4_000_000_000, "gpus": None, "disk": None},
        },
        {
            "name": "gpu",
            "strategy": "slurm",
            "elastic": {"min": 0, "max": 20},
            "slots": 4,
            "resources": {"cpus": 8, "memory": 64_000_000_000, "gpus": 1, "disk": None},
        },
    ],
    "segments": [
        {"index": 0, "name": "BuildIndex", "stages": ["BuildIndex"], "pools": ["high_memory"], "tasks": 20},
        {"index": 1, "name": "RunInference", "stages": ["RunInference"], "pools": ["gpu", "default"], "tasks": 20},
    ],
    "products": [{"name": "Presel", "stage": "Presel", "kind": "cutflow"}],
    "partitions": 20,
    "tasks": 41,
    "task_blocks": [[20, 0, False], [20, 1, False], [1, 1, True]],
    "warnings": ["this machine has no GPU: pool 'gpu' runs on the CPU"],
}
PROVENANCE: dict[str, Any] = {
    "cenote": "0.1.0",
    "python": "3.12.1",
    "platform": "Linux",
    "software": {"uproot": "5.7.7", "hist": "2.12.1"},
    "command": ["cenote", "run", "flow.yaml", "--out", "my out"],
    "workflow": {"file": "/home/me/flow.yaml", "sha256": "00ff"},
    "plugins": [{"file": "ops.py", "sha256": "11"}],
    "plan": "abc123",
    "inputs": [{"dataset": "data", "file": "data/run_7.root", "stamp": "s1", "events": 2_000_000, "size": 512_000_000}],
    "git": {"commit": "deadbeef", "changed": True},
}


def a_journal() -> bytes:
    events: list[Any] = [RunStarted(at=100.0, run="4f1c", tasks=3)]
    for task, (pool, start, end) in enumerate([("gpu", 100, 140), ("gpu", 110, 160), ("default", 150, 200)]):
        events.append(TaskStarted(at=float(start), task=task, pool=pool, worker=f"{pool}-0"))
        events.append(TaskDone(at=float(end), task=task, pool=pool, worker=f"{pool}-0", seconds=float(end - start)))
    events.append(RunFinished(at=200.0, status="partial", seconds=100.0))
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


def a_cutflow() -> Cutflow:
    counted = [("data", 0, "two muons", 1000, 400), ("data", 1, MEAN, 400, 100), ("mc", 0, "two muons", 0, 0)]
    return Cutflow(
        tuple(
            CutflowRow(
                dataset=dataset,
                name=f"All[{index}]",
                selection="All",
                index=index,
                label=label,
                expr=label,
                kind="expression",
                parents=(),
                weighted=True,
                n_unweighted_in=entering,
                n_unweighted_out=leaving,
                sumw_in=entering * 0.5,
                sumw_out=leaving * 0.5,
                sumw2_in=entering * 0.25,
                sumw2_out=leaving * 0.25,
            )
            for dataset, index, label, entering, leaving in counted
        )
    )


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Everything that a run leaves, failures and all."""
    for name, value in (("summary", SUMMARY), ("plan", PLAN), ("provenance", PROVENANCE)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    (tmp_path / "journal.jsonl").write_bytes(a_journal())
    (tmp_path / "plan.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"/>', encoding="utf-8")
    (tmp_path / "plots" / "each").mkdir(parents=True)
    for name in ("MuonPt.png", "each/data.png"):
        (tmp_path / "plots" / name).write_bytes(a_png())
    (tmp_path / "plots" / "MuonPt.pdf").write_bytes(b"%PDF")
    (tmp_path / "products").mkdir()
    (tmp_path / "products" / "MuonPt.json").write_text("[]", encoding="utf-8")
    CutflowProduct().save(a_cutflow(), tmp_path / "products", "Presel")
    return tmp_path
