"""A name is claimed while other processes look for unused labs to end."""

from pathlib import Path

from fairlead.lab.run.down import reap
from fairlead.lab.run.home import LabHome, hold_lock, make_staging
from fairlead.lab.run.up import LabSpec, claim_name


def test_a_folder_without_a_state_is_no_lab_that_could_be_reaped(tmp_path: Path) -> None:
    where = LabHome(tmp_path)
    staging = make_staging(where.folder("lab"))
    (staging / "half").touch()
    assert where.folders() == []
    assert reap(where) == []
    assert list(make_staging(where.folder("lab")).iterdir()) == [], "what a killed starter has left is gone"


def test_a_claimed_folder_has_its_state_and_its_lock(tmp_path: Path) -> None:
    where = LabHome(tmp_path)
    with claim_name(where, LabSpec(name="lab")) as lab:
        assert where.folders() == [lab.folder]
        assert [each.name for each in where.labs()] == ["lab"]
        with hold_lock(lab.folder) as acquired:
            assert not acquired
        assert reap(where) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lab"]
