"""Test that predictions are what the engine would do with such workers and durations."""

from __future__ import annotations

import pytest

from builders.plans import a_plan, a_pool, a_segment
from cenote.engine.simulate import DurationModel, gains, predict
from cenote.language.execution import Elastic

AT_ONCE = DurationModel({}, unknown=1.0, merge=0.0, startup=0.0)


def test_tasks_share_the_slots_of_their_pool() -> None:
    plan = a_plan(partitions=12, segments=[a_segment("Skim")], pools=[a_pool("default", workers=2, slots=3)])

    predicted = predict(plan, AT_ONCE)

    assert predicted.status == "succeeded"
    assert predicted.seconds == pytest.approx(2.0)
    assert (predicted.pools[0].workers, predicted.pools[0].tasks) == (2, 12)
    assert predicted.pools[0].use == pytest.approx(1.0)


def test_stages_of_one_partition_overlap_with_those_of_the_next() -> None:
    segments = [a_segment("Index", pools=["cpu"]), a_segment("Infer", needs=["Index"], pools=["gpu"])]
    plan = a_plan(partitions=10, segments=segments, pools=[a_pool("cpu"), a_pool("gpu")])

    predicted = predict(plan, DurationModel({"Index": 1.0, "Infer": 3.0}, startup=0.0))

    assert predicted.seconds == pytest.approx(31.0)
    assert predicted.bottleneck is not None
    assert predicted.bottleneck.name == "gpu"
    assert predicted.bottleneck.bound == pytest.approx(30.0)


def test_one_more_worker_helps_where_the_work_is() -> None:
    segments = [a_segment("Index", pools=["cpu"]), a_segment("Infer", needs=["Index"], pools=["gpu"])]
    plan = a_plan(partitions=10, segments=segments, pools=[a_pool("cpu"), a_pool("gpu")])
    model = DurationModel({"Index": 1.0, "Infer": 3.0}, startup=0.0)

    saved = gains(plan, model, predict(plan, model))

    assert saved["gpu"] == pytest.approx(15.0, abs=1.5)
    assert saved["cpu"] == pytest.approx(0.0, abs=0.5)


def test_workers_take_their_time_to_start_and_cost_what_they_live() -> None:
    plan = a_plan(partitions=4, segments=[a_segment("Skim")], pools=[a_pool("default", workers=2, cost=3600.0)])

    predicted = predict(plan, DurationModel({"Skim": 10.0}, startup=30.0))

    assert predicted.seconds == pytest.approx(50.0)
    assert predicted.cost == pytest.approx(40.0)


def test_an_elastic_pool_pays_only_for_what_it_uses() -> None:
    fixed = a_pool("default", workers=8, cost=1.0)
    elastic = a_pool("default", elastic=Elastic(max=8, idle_time=5, resize_period=1), cost=1.0)
    segments = [a_segment("Skim"), a_segment("Train", needs=["Skim"], scope="run")]
    model = DurationModel({"Skim": 1.0, "Train": 100.0}, startup=0.0)

    dear = predict(a_plan(partitions=16, segments=segments, pools=[fixed]), model)
    cheap = predict(a_plan(partitions=16, segments=segments, pools=[elastic]), model)

    assert cheap.seconds == pytest.approx(dear.seconds, abs=5.0)
    assert cheap.cost is not None
    assert dear.cost is not None
    assert cheap.cost < dear.cost / 3


def test_a_run_that_falls_back_is_predicted_to() -> None:
    plan = a_plan(
        partitions=3,
        segments=[a_segment("Infer", pools=["gpu", "default"])],
        pools=[a_pool("default"), a_pool("gpu", workers=0, queue_timeout=60)],
    )

    predicted = predict(plan, AT_ONCE)

    assert (predicted.status, predicted.moved) == ("succeeded", 3)


def test_a_run_that_finds_no_worker_is_predicted_to_fail() -> None:
    plan = a_plan(
        partitions=3,
        segments=[a_segment("Infer", pools=["gpu"])],
        pools=[a_pool("gpu", workers=0, queue_timeout=60), a_pool("default")],
    )

    assert predict(plan, AT_ONCE).status == "failed"
    assert predict(plan, AT_ONCE).seconds == pytest.approx(60.0, abs=2.0)


def test_the_same_model_gives_the_same_prediction() -> None:
    plan = a_plan(partitions=50, segments=[a_segment("A"), a_segment("B", needs=["A"], product=True)])

    assert predict(plan, AT_ONCE) == predict(plan, AT_ONCE)
