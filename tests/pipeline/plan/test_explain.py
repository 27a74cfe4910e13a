"""What a plan is said to mean: the limit, the hops, one process; and every prefix cut."""

import pytest

from fairlead.pipeline.plan.cut import CutPlan, CutRefusal
from fairlead.pipeline.plan.explain import CutExplanation, explain, sentences
from fairlead.pipeline.plan.explore import best_cut, explore
from tests.pipeline.plan.problems import link, plan, problem, problem_of, stage

FOUR = [
    stage("decode", 100, a=2.0, b=1.0),
    stage("scale", 9000, a=2.0, b=1.0),
    stage("detect", 500, 50, a=30.0, b=6.0),
    stage("count", 0, 30, a=1.0, b=1.0),
]
LINKS = [link("a", "b", delay=0.5)]


def explained(document: dict[str, object], **options: float) -> tuple[CutExplanation, str]:
    """Return the explanation of the best plan, and its sentences."""
    answer, parsed = plan(document), problem_of(document)
    explanation = explain(parsed, answer, **options)  # type: ignore[arg-type]  # cores and hop_s by name
    return explanation, "\n".join(sentences(parsed, answer, explanation))


def test_the_limit_is_the_sum_by_the_slowest_or_the_cores() -> None:
    explanation, text = explained(problem(FOUR, LINKS))
    assert (explanation.slowest, explanation.sum_s, explanation.most_s) == ("detect", 11.0, 6.0)
    assert explanation.limit == pytest.approx(11 / 6)
    assert "at most 1.83x one process" in text
    assert "3 cores, 11,000 ms in all, 6,000 ms of it in detect" in text
    assert explained(problem(FOUR, LINKS), cores=1)[0].limit == 1.0


def test_bottleneck_hops_and_ratio_are_said() -> None:
    _, text = explained(problem(FOUR, LINKS))
    assert "Bottleneck: b works on each frame for 7,000 ms, so at most 0.143 frames/s pass." in text
    assert "Hops: 1, with 500 bytes for each frame" in text
    assert "1,000 ms to 11,000 ms, a ratio of 0.09" in text
    _, text = explained(problem([stage("s", 5000, b=2.0)], LINKS))
    assert "the link a->b carries each frame for 5,000 ms" in text


def test_a_split_must_gain_more_than_a_hop_takes() -> None:
    """The split leaves 6 ms of 10 ms; a hop of 4 ms or more on each side takes that gain."""
    stages = [stage("s", 0, a=0.006, b=0.006), stage("t", 0, a=0.004, b=0.004)]
    document = problem(stages, LINKS)
    assert plan(document).assignment == ("a", "b")
    explanation, text = explained(document, hop_s=0.0079)
    assert not explanation.one_process_is_best
    assert "The split gains more than a hop takes (7.9 ms of CPU): the period is 10 ms on a by itself" in text
    explanation, text = explained(document, hop_s=0.0081)
    assert explanation.one_process_is_best
    assert "One process is best if a hop takes 8.1 ms of CPU" in text
    assert not explained(document)[0].one_process_is_best


@pytest.mark.parametrize(("gain", "best"), [(0.00015, True), (0.00025, False)])
def test_a_hop_in_shared_memory_takes_two_fifths_of_a_millisecond(gain: float, best: bool) -> None:
    """Half of it on each node, so that a split with one hop must gain 0.2 ms."""
    stages = [stage("s", a=0.005, b=0.005), stage("t", a=gain, b=gain)]
    assert explained(problem(stages, LINKS))[0].one_process_is_best is best


def test_with_hops_counted_fewer_nodes_may_be_best() -> None:
    stages = [stage("s", a=5.0), stage("t", b=4.9), stage("u", b=0.15, c=0.15)]
    document = problem(stages, [link("a", "b"), link("b", "c")])
    assert plan(document).assignment == ("a", "b", "c")
    explanation, text = explained(document, hop_s=0.4)
    assert explanation.charged is not None
    assert explanation.charged.period_s == pytest.approx(5.25)
    assert explanation.charged.assignment == ("a", "b", "b")
    assert "no node can run all stages by itself" in text
    stages[0]["seconds"]["b"], document["links"] = 5.0, [*document["links"], link("a", "c")]
    _, text = explained(document, hop_s=0.4)
    assert text.endswith("with hops counted, the best is a: s | b: t, u.")


def test_one_process_is_best_or_impossible() -> None:
    _, text = explained(problem([stage("s", 10, a=1.0), stage("t", 9000, a=1.0, b=1.0)], LINKS))
    assert "One process is best: no split has a smaller period than a by itself." in text
    explanation, text = explained(problem([stage("s", a=1.0), stage("t", b=1.0)], LINKS))
    assert not explanation.one_process_is_best
    assert "One process: impossible" in text


def test_a_pipeline_that_takes_no_time_has_no_rate_and_no_limit() -> None:
    explanation, text = explained(problem([stage("s", a=0.0)], []))
    assert explanation.limit == 1.0
    assert "Bottleneck: a works on each frame for 0 ms." in text


def test_every_prefix_cut_is_explored() -> None:
    parsed = problem_of({**problem(FOUR, LINKS, a=79), "nodes": [*problem(FOUR, LINKS, a=79)["nodes"][:2]]})
    cuts = {cut.letters: cut.outcome for cut in explore(parsed)}
    assert list(cuts) == ["SSSS", "ESSS", "EESS", "EEES", "EEEE"]
    assert isinstance(whole := cuts["EEEE"], CutRefusal)
    assert whole.reason == "a has 79 B of memory, and its stages need 80 B"
    assert isinstance(half := cuts["EESS"], CutPlan)
    assert (half.period_s, half.latency_s, half.bottleneck) == (7.0, 12.0, "b")
    assert isinstance(first := cuts["ESSS"], CutPlan)
    assert (first.period_s, first.bottleneck, first.hops[0].bytes) == (9.0, "a->b", 9000)
    assert first.ratio == pytest.approx(9.5 / 10)
    best = best_cut(explore(parsed))
    assert best is not None
    assert best.letters == "EESS"


def test_each_other_node_is_explored_and_the_sources_own_once() -> None:
    cuts = explore(problem_of(problem(FOUR[:2], LINKS)))
    assert [(cut.letters, cut.other) for cut in cuts] == [
        ("SS", "b"),
        ("ES", "b"),
        ("SS", "c"),
        ("ES", "c"),
        ("EE", None),
    ]
    reasons = [cut.outcome.reason for cut in cuts if isinstance(cut.outcome, CutRefusal)]
    assert reasons == [
        "c cannot run decode: it is missing from the stage's seconds",
        "c cannot run scale: it is missing from the stage's seconds",
    ]
