"""What came of the inputs of a measurement, found by content."""

from pathlib import Path

from fairlead.splitbench.inputs import check_results, content_of, name_of
from fairlead.splitbench.plan import SplitPlan
from fairlead.splitwork.fixed_rate import fixed_result


def test_a_wrong_a_missing_and_a_second_result_are_found(tmp_path: Path) -> None:
    plan = SplitPlan((1, 1), 4, 1.0)
    for number in range(4):
        path = tmp_path / name_of(number)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(fixed_result(name_of(number), content_of(plan, number)))
    rows = [{"path": name_of(number), "worker": "w"} for number in range(4)]
    checked = check_results(plan, iter(rows), str(tmp_path))
    assert (checked.results, checked.lost, checked.doubled) == (4, 0, 0)
    (tmp_path / name_of(1)).write_bytes(b"another")
    checked = check_results(plan, iter([*rows[:3], rows[0]]), str(tmp_path))
    assert (checked.results, checked.lost, checked.doubled) == (2, 2, 1)
