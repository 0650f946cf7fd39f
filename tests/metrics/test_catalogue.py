"""The catalogue names what there is: each metric once, in an area, and nothing that no run says."""

import pytest

from agentbench.metrics.catalogue import ALSO, AREAS, FAMILIES, METRICS, Metric, describe, family
from agentbench.metrics.collect import summarise

EVERY = [*METRICS.values(), *FAMILIES.values()]


def test_every_area_is_described_and_used() -> None:
    assert {metric.area for metric in EVERY} == set(AREAS)


def test_what_it_says_of_evaluations_is_in_their_summary() -> None:
    summary = summarise([], [])
    assert [m.name for m in EVERY if m.area == "eval" and m.name.removeprefix("eval/") not in summary] == []


def test_other_names_belong_to_metrics() -> None:
    assert set(ALSO) <= set(METRICS)
    assert METRICS["policy/entropy"].also[0] == "verl actor/entropy"
    assert METRICS["policy/loss"].also == ()


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_a_metric_says_what_it_means(metric: Metric) -> None:
    assert metric.unit and metric.meaning.endswith(".") and len(metric.meaning) < 90
    assert metric.source == ("run.json" if metric.area == "eval" else "metrics.jsonl")


def test_an_indexed_metric_belongs_to_its_family() -> None:
    assert describe("entropy/turn_12") is FAMILIES["entropy/turn"]
    assert describe("policy/entropy") is METRICS["policy/entropy"]
    with pytest.raises(KeyError):
        describe("policy/nonsense")


def test_a_family_is_read_from_a_row_in_order() -> None:
    row = {"entropy/turn_10": 0.1, "entropy/turn_2": 0.2, "entropy/token_0": 0.3, "update": 7}
    assert list(family(row, "entropy/turn").items()) == [(2, 0.2), (10, 0.1)]
