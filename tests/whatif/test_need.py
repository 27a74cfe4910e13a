"""The report of a bound pod shows what its scheduler counts it for, if that goes by measured use."""

from fairlead.cluster.meta import replace
from fairlead.keys import BY_USE
from fairlead.whatif.pod_status import final_status, placed_by_use, with_need
from tests.serve.scheduler.objects import claim, pod


def test_only_pods_with_a_claim_by_use_are_asked_about() -> None:
    bound = pod("web", on="n1", mib=1024)
    plain = claim("web-claim", bound, on="n1")
    notes = {**plain.metadata.annotations, BY_USE: "1"}
    marked = replace(plain, metadata=replace(plain.metadata, annotations=notes))
    assert placed_by_use(bound, [marked])
    assert not placed_by_use(bound, [plain])
    assert not placed_by_use(pod("web", on="n1", phase="Succeeded"), [marked])


def test_the_schedulers_answer_adds_the_need_and_nothing_else() -> None:
    bound = pod("web", on="n1", mib=1024)
    report = final_status(bound, [claim("web-claim", bound, on="n1")])
    assert report is not None
    answer = {"need": {"source": "observed"}, "telemetry": "garbage", "note": "why", "placed": False}
    told = with_need(report, answer)
    assert (told["need"], told["telemetry"], told["note"]) == ({"source": "observed"}, {}, "why")
    assert told["placed"] is report["placed"] is True
