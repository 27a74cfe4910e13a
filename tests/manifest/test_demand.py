"""The accelerators that a pod requests: every spelling, and contradictions."""

from typing import Any

import pytest

from fairlead.errors import ManifestError
from fairlead.request import Demand
from fairlead.units import Bytes
from tests.manifest.worlds import pod, read_pod

MIB, GIB = 1 << 20, 1 << 30


def size(amount: int) -> Bytes:
    return Bytes(amount)


@pytest.mark.parametrize(
    ("limits", "annotations", "demand"),
    [
        ({}, {}, Demand()),
        ({"cpu": 2, "example.com/key": 1}, {}, Demand()),
        ({"fairlead.dev/gpu-mem": 2048}, {}, Demand(1, size(2 * GIB))),
        ({"fairlead.dev/gpu-mem-gib": 2}, {}, Demand(1, size(2 * GIB))),
        ({"fairlead.dev/t4": 2}, {}, Demand(2, models=("t4",))),
        ({"fairlead.dev/h200-mig-1g.18gb": 1}, {}, Demand(1, models=("h200-mig-1g.18gb",))),
        (
            {"fairlead.dev/hailo-8-or-hailo-8l": 1},
            {},
            Demand(1, models=("hailo-8-or-hailo-8l", "hailo-8", "hailo-8l")),
        ),
        ({"nvidia.com/gpu": 1}, {}, Demand(1, vendors=("NVIDIA",))),
        ({"amd.com/gpu": 2}, {}, Demand(2, vendors=("AMD",))),
        ({"aliyun.com/gpu-mem": 3}, {}, Demand(1, size(3 * GIB), vendors=("NVIDIA",))),
        ({"aliyun.com/gpu-mem": 3000}, {}, Demand(1, size(3000 * MIB), vendors=("NVIDIA",))),
        (
            {"aliyun.com/gpu-mem": 300},
            {"fairlead.dev/gpu-mem-unit": "MiB"},
            Demand(1, size(300 * MIB), vendors=("NVIDIA",)),
        ),
        (
            {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000},
            {},
            Demand(2, size(3000 * MIB), vendors=("NVIDIA",)),
        ),
        (
            {"nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30},
            {},
            Demand(1, size(3000 * MIB), 300, vendors=("NVIDIA",)),
        ),
        (
            {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50},
            {},
            Demand(1, vendors=("NVIDIA",)),
        ),
        ({}, {"gpu-fraction": "0.5"}, Demand(1)),
        ({}, {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}, Demand(2)),
        ({}, {"gpu-memory": "2000"}, Demand(1, size(2000 * MIB))),
        ({}, {"fairlead.dev/gpu-compute": "25%"}, Demand(1, None, 250)),
        ({}, {"fairlead.dev/model": "a.onnx"}, Demand(1)),
        (
            {"fairlead.dev/gpu-mem": 1},
            {"fairlead.dev/accelerators": "t4, a10"},
            Demand(1, size(MIB), models=("t4", "a10")),
        ),
        (
            {"fairlead.dev/gpu-mem": 1},
            {"fairlead.dev/not-accelerators": "t4"},
            Demand(1, size(MIB), excluded=("t4",)),
        ),
        (
            {"fairlead.dev/gpu-mem": 1},
            {"fairlead.dev/vendors": "nvidia"},
            Demand(1, size(MIB), vendors=("NVIDIA",)),
        ),
        (
            {"fairlead.dev/gpu-mem": 1},
            {"fairlead.dev/precision": "fp16"},
            Demand(1, size(MIB), precision="fp16"),
        ),
        ({"fairlead.dev/gpu-mem": 1}, {"fairlead.dev/accelerator-count": "2"}, Demand(2, size(MIB))),
        (
            {"fairlead.dev/gpu-mem": 1024, "aliyun.com/gpu-mem": 1},
            {},
            Demand(1, size(GIB), vendors=("NVIDIA",)),
        ),
    ],
)
def test_every_spelling_of_a_request(
    limits: dict[str, Any], annotations: dict[str, str], demand: Demand
) -> None:
    assert read_pod(pod(limits, annotations)).demand == demand


@pytest.mark.parametrize(
    ("limits", "annotations", "message"),
    [
        ({"fairlead.dev/gpu-mem": -1}, {}, "limits.fairlead.dev/gpu-mem: -1 is negative"),
        ({"fairlead.dev/gpu-mem": 0.5}, {}, "limits.fairlead.dev/gpu-mem: '0.5' is not a whole number"),
        ({"fairlead.dev/gpu-mem": float("nan")}, {}, "limits.fairlead.dev/gpu-mem: nan is not an amount"),
        ({"nvidia.com/gpu": "many"}, {}, "limits.nvidia.com/gpu: 'many' is not an amount"),
        ({"fairlead.dev/t5": 1}, {}, "fairlead.dev/t5: no device 't5' in the catalog"),
        ({"fairlead.dev/t4": 1, "fairlead.dev/a10": 1}, {}, "several models at once"),
        ({"fairlead.dev/h2000-mig-1g.18gb": 1}, {}, "no device 'h2000'"),
        ({"fairlead.dev/gpu-mem": 1024}, {"gpu-memory": "100"}, "request different amounts"),
        ({"nvidia.com/gpu": 2}, {"fairlead.dev/accelerator-count": "3"}, "requests 2 and 3 accelerators"),
        ({"nvidia.com/gpucores": 130}, {}, "nvidia.com/gpucores: 130 % of an accelerator"),
        ({}, {"gpu-fraction": "1.5"}, "[gpu-fraction]: 1.5 is more than"),
        ({}, {"gpu-fraction": "0"}, "[gpu-fraction]: 0 is not above 0"),
        ({}, {"gpu-fraction": "half"}, "[gpu-fraction]: 'half' is not a fraction"),
        ({}, {"gpu-memory": "1.5"}, "[gpu-memory]: '1.5' is not a whole number"),
        ({"fairlead.dev/gpu-mem": 1024}, {"gpu-fraction": "0.5"}, "an amount and a fraction of the memory"),
        ({"nvidia.com/gpumem-percentage": 130}, {}, "nvidia.com/gpumem-percentage: 130 % of an accelerator"),
        ({"aliyun.com/gpu-mem": 1}, {"fairlead.dev/gpu-mem-unit": "KiB"}, "unknown unit 'KiB'"),
        (
            {"fairlead.dev/gpu-mem": 1},
            {"fairlead.dev/accelerators": "t5"},
            "[fairlead.dev/accelerators]: no device 't5'",
        ),
        ({"fairlead.dev/gpu-mem": 1}, {"fairlead.dev/vendors": "nvida"}, "no vendor 'nvida'"),
        ({"fairlead.dev/gpu-mem": 1}, {"fairlead.dev/precision": "fp7"}, "unknown precision 'fp7'"),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/use-gputype": "Voodoo"}, "[nvidia.com/use-gputype]: no model"),
        (
            {},
            {"fairlead.dev/model": "a", "fairlead.dev/slo-latency": "-3ms"},
            "[fairlead.dev/slo-latency]: -3ms is negative",
        ),
        ({}, {"fairlead.dev/model": "a", "fairlead.dev/slo-latency": "0"}, "not a duration above zero"),
    ],
)
def test_an_invalid_request_names_its_field(
    limits: dict[str, Any], annotations: dict[str, str], message: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        read_pod(pod(limits, annotations))
    assert str(caught.value).startswith("file: Pod default/web: ")
    assert message in str(caught.value)


def test_hami_types_are_found_by_product() -> None:
    models = read_pod(pod({"nvidia.com/gpu": 1}, {"nvidia.com/use-gputype": "A100,T4"})).demand.models
    assert {"a100", "t4"} <= set(models)
    assert "v100" not in models
