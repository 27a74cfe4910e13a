"""DCGM's names: one table, the same value under either name."""

import pytest

from fairlead import dcgm
from fairlead.dcgm import Names


def test_dcgm_exporter_renamed_22_metrics_and_gave_eleven_of_them_base_units() -> None:
    assert len(dcgm.RENAMED) == 22  # the 23rd is the label of the driver's version
    assert sum(field.scale != 1 for field in dcgm.RENAMED) == 11
    assert all(field.old != field.new for field in dcgm.RENAMED)
    names = [name for field in dcgm.FIELDS.values() for name in {field.old, field.new}]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("field", dcgm.FIELDS.values(), ids=lambda field: str(field.old))
def test_both_names_give_the_same_value(field: dcgm.Field) -> None:
    for name, value in dcgm.write(field, 0.25, Names.BOTH):
        read = dcgm.read(name, value)
        assert read is not None
        assert read[0] is field
        assert read[1] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("old", "value", "new", "same"),
    [
        ("SM_CLOCK", 1980.0, "SM_CLOCK_HERTZ", 1.98e9),
        ("TOTAL_ENERGY_CONSUMPTION", 1500.0, "GPU_ENERGY_JOULES_TOTAL", 1.5),
        ("GPU_UTIL", 42.0, "GPU_UTIL_RATIO", 0.42),
        ("FB_USED", 1024.0, "FB_USED_BYTES", 2.0**30),
        ("NVLINK_BANDWIDTH_TOTAL", 1.0, "NVLINK_THROUGHPUT_BYTES_PER_SECOND", 1_024_000.0),
        ("POWER_USAGE", 70.5, "BOARD_POWER_WATTS", 70.5),
        ("XID_ERRORS", 79.0, "XID_ERROR", 79.0),
    ],
)
def test_units(old: str, value: float, new: str, same: float) -> None:
    read = dcgm.read(f"DCGM_FI_DEV_{old}", value)
    assert read is not None
    field, converted = read
    assert field.new == f"DCGM_FI_DEV_{new}"
    assert converted == pytest.approx(same)
    assert dict(dcgm.write(field, same, Names.OLD)) == {f"DCGM_FI_DEV_{old}": pytest.approx(value)}
    assert dcgm.write(field, same, Names.NEW) == [(f"DCGM_FI_DEV_{new}", same)]


def test_help_says_which_release_has_the_name() -> None:
    field = dcgm.FIELDS["DCGM_FI_DEV_GPU_UTIL"]
    assert "(in %)" in field.help(field.old)
    assert "up to 4.8; DCGM_FI_DEV_GPU_UTIL_RATIO since 4.9" in field.help(field.old)
    assert "since 4.9; DCGM_FI_DEV_GPU_UTIL up to 4.8" in field.help(field.new)


def test_an_unknown_field_is_not_read() -> None:
    assert dcgm.read("DCGM_FI_DEV_NOTHING", 1.0) is None
    ecc = dcgm.FIELDS["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"]
    assert dcgm.write(ecc, 2.0, Names.BOTH) == [(ecc.old, 2.0)]
