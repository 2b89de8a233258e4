"""What other programs may rely on in `cenote plan --json` and `plan.json`."""

from __future__ import annotations

import json
from typing import Any

from builders.stage_graphs import StageSketch, plan_of
from cenote.common.errors import Place
from cenote.language.execution import Amounts, Elastic, Pool
from cenote.language.systematics import KeyPath, Origin
from cenote.planning.plan import Plan
from cenote.planning.record import PlanRecord, as_json

GB = 10**9
POOLS = (
    Pool("default", workers=10, resources=Amounts(cpus=1, memory=4 * GB)),
    Pool("gpu", elastic=Elastic(min=0, max=5), slots=2, resources=Amounts(gpus=2), provides=("a100",)),
)
STAGES = (
    StageSketch("Infer", pool="gpu", op="custom.inference", columns=("score",)),
    StageSketch("Hist", ("Infer",), op="hep.hist", product="histogram"),
)


def plan_as_json(plan: Plan) -> dict[str, Any]:
    return as_json(PlanRecord.of(plan))


def test_the_promised_keys_are_there() -> None:
    found = plan_as_json(plan_of(STAGES, POOLS))
    assert {"stages", "pools", "partitions", "tasks", "warnings"} <= found.keys()
    for stage in found["stages"]:
        assert {"id", "op", "pools", "verdict", "reason", "segment"} <= stage.keys()
    for pool in found["pools"]:
        assert {"name", "strategy", "slots", "resources"} <= pool.keys()
        assert ("workers" in pool) != ("elastic" in pool)
        assert pool["resources"].keys() == {"cpus", "memory", "gpus", "disk"}


def test_stages_say_where_they_run_why_and_what_else_was_considered() -> None:
    infer, hist = plan_as_json(plan_of(STAGES, POOLS))["stages"]
    assert (infer["id"], infer["op"], infer["pools"], infer["segment"]) == ("Infer", "custom.inference", ["gpu"], 0)
    assert (infer["verdict"], hist["verdict"]) == ("not now", "yes")
    assert infer["reason"] == "requires 'gpu'; gpu starts without workers and grows when tasks wait"
    assert infer["considered"] == [
        {"pool": "default", "fits": False, "reason": "does not provide 'gpu'"},
        {"pool": "gpu", "fits": True, "reason": "provides 'gpu'"},
    ]


def test_pools_are_shown_as_written_and_as_granted() -> None:
    default, gpu = plan_as_json(plan_of(STAGES, POOLS))["pools"]
    assert (default["name"], default["strategy"], default["workers"], default["slots"]) == ("default", "local", 10, 1)
    assert default["resources"] == {"cpus": 1, "memory": 4 * GB, "gpus": 0, "disk": None}
    assert (gpu["elastic"]["max"], gpu["slots"], gpu["labels"]) == (5, 2, ["a100", "gpu"])
    assert gpu["granted"]["resources"]["gpus"] == 2


def test_each_setting_of_a_pool_says_where_it_came_from() -> None:
    gpu: KeyPath = ("execution", "pools", "gpu")
    origins: dict[KeyPath, Origin] = {
        gpu: Origin("flow.yaml", Place("flow.yaml", 3, 5)),
        (*gpu, "slots"): Origin("command line"),
        (*gpu, "resources"): Origin("profile site.yaml", Place("site.yaml", 9, 7)),
        (*gpu, "resources", "gpus"): Origin("profile site.yaml", Place("site.yaml", 10, 9)),
    }
    _, found = plan_as_json(plan_of(STAGES, POOLS, origins=origins))["pools"]
    assert found["origins"] == {"slots": "command line", "resources.gpus": "profile site.yaml (site.yaml:10:9)"}


def test_segments_name_what_they_read_and_what_crosses() -> None:
    first, second = plan_as_json(plan_of(STAGES, POOLS))["segments"]
    assert first["reads"]["data"][:2] == ["Muon_pt", "Muon_eta"]
    assert (first["crossing"], second["imports"]) == ({"Infer": ["score"]}, ["Infer"])
    assert (first["tasks"], second["pools"]) == (4, ["default"])


def test_data_and_products_are_counted() -> None:
    found = plan_as_json(plan_of(STAGES, POOLS, partitions=4))
    assert (found["partitions"], found["events"]) == (4, 40_000)
    assert found["datasets"][0] == {
        "name": "data",
        "eventtype": "data",
        "group": None,
        "files": 4,
        "events": 40_000,
        "partitions": 4,
    }
    assert [(product["name"], product["kind"]) for product in found["products"]] == [("Hist", "histogram")]


def test_equal_plans_give_equal_json() -> None:
    first, second = (json.dumps(plan_as_json(plan_of(STAGES, POOLS))) for _ in range(2))
    assert first == second
