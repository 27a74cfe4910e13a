"""The state of measured use on a metrics page: every state and fault has a series."""

from fairlead.metrics import MetricFamily
from fairlead.series import Staleness
from fairlead.usage.metrics import families
from fairlead.usage.status import UseStatus
from fairlead.use import UseFault


def lines(status: UseStatus) -> list[str]:
    rows = [MetricFamily(*family) for family in families(status)]
    text = "".join(line for family in rows for line in family.lines())
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_the_page_shows_the_state_the_age_and_the_faults() -> None:
    status = UseStatus("prometheus", Staleness.STALE, "why", {UseFault.LAGGING: 3}, 1, 2, 3, 4, 61.5)
    page = lines(status)
    assert [line for line in page if line.startswith("fairlead_usage_staleness")] == [
        'fairlead_usage_staleness{state="fresh"} 0.0',
        'fairlead_usage_staleness{state="stale"} 1.0',
        'fairlead_usage_staleness{state="missing"} 0.0',
    ]
    assert "fairlead_usage_age_seconds 61.5" in page
    assert 'fairlead_usage_series{kind="device",state="stale"} 2.0' in page
    assert 'fairlead_usage_series{kind="pod",state="fresh"} 3.0' in page
    assert 'fairlead_usage_faults_total{fault="lagging"} 3.0' in page
    assert len([line for line in page if line.startswith("fairlead_usage_faults")]) == len(UseFault)


def test_there_is_no_age_before_the_first_sample() -> None:
    assert not [line for line in lines(UseStatus()) if line.startswith("fairlead_usage_age")]
