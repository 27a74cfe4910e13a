"""What holds a job to its share of each kind of accelerator, and what a person is told where nothing does."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.inventory import Accelerator
from fairlead.job import JobKind, Limiter, Requested
from fairlead.local.enforced import by_listing, limits_text, unenforced
from fairlead.local.view import DeviceProcess, DeviceView
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.accelerators import accelerator
from tests.local.runner.jobs import GIB, queued, view

NVIDIA = accelerator(vendor="NVIDIA", kind="gpu", driver="nvidia", mebibytes=16 << 10)
JETSON = accelerator(
    "platform:gpu", vendor="NVIDIA", kind="gpu", driver="nvgpu", unified=True, mebibytes=8 << 10
)
WATCHED = "memory by watchdog; compute by none"
UNLISTED = "none: the driver lists no processes"
RAM = "none: its memory is the machine's RAM, which the driver does not list by process"


@pytest.mark.parametrize(
    ("acc", "mps", "text"),
    [
        (NVIDIA, True, "memory by watchdog and MPS; compute by MPS"),
        (NVIDIA, False, WATCHED),
        (replace(NVIDIA, vendor="AMD", driver="amdgpu"), True, WATCHED),
        (replace(NVIDIA, vendor="Intel", driver="xe"), False, WATCHED),
        (replace(NVIDIA, vendor="Intel", driver="i915", unified_memory=True), False, RAM),
        (JETSON, True, RAM),
        (replace(NVIDIA, vendor="Huawei", driver="davinci"), True, UNLISTED),
        (replace(NVIDIA, driver=None), True, UNLISTED),
        (accelerator(kind="tpu", driver="apex"), False, "none needed: a job has it alone"),
    ],
)
def test_each_kind_of_accelerator(acc: Accelerator, mps: bool, text: str) -> None:
    assert limits_text(acc, mps=mps, listed=by_listing(acc)) == text


def test_a_jetson_that_lists_its_clients_is_watched() -> None:
    assert limits_text(JETSON, mps=True, listed=True) == WATCHED


STATED = Requested(gpu_memory=Bytes(4 * GIB))
NOT_HERE = f"its size is not enforced on {NVIDIA.id}: the driver lists no processes"


def test_the_clients_of_a_graphics_driver_are_listed_once_there_are_some() -> None:
    seen = replace(view(), devices=(DeviceView(replace(NVIDIA, vendor="AMD", driver="amdgpu")),))
    job = queued(requested=STATED, shares=(DeviceShare(NVIDIA.id, Bytes(4 * GIB)),))
    assert not list(unenforced(seen, job))


@pytest.mark.parametrize(
    ("processes", "fields", "lines"),
    [
        ((), {}, []),
        ((DeviceProcess(1, Bytes(1)),), {}, []),
        (None, {}, [NOT_HERE]),
        ((DeviceProcess(1, None),), {}, [NOT_HERE]),
        (None, {"requested": Requested()}, []),  # no size is stated
        (None, {"shares": (DeviceShare(NVIDIA.id, whole=True),)}, []),
        (
            (),
            {"requested": replace(STATED, limiter=Limiter.NONE)},
            ["its size is not enforced: --limiter none"],
        ),
        ((), {"kind": JobKind.ADOPTED}, ["its size is not enforced: it was not started through fairlead"]),
    ],
)
def test_a_stated_size_that_nothing_enforces_is_said(
    processes: tuple[DeviceProcess, ...] | None, fields: dict[str, Any], lines: list[str]
) -> None:
    values = {"requested": STATED, "shares": (DeviceShare(NVIDIA.id, Bytes(4 * GIB)),), **fields}
    seen = replace(view(), devices=(DeviceView(NVIDIA, processes=processes),))
    assert list(unenforced(seen, queued(**values))) == lines
    assert len(list(unenforced(None, queued(**values)))) <= len(lines)  # a machine that was not read
