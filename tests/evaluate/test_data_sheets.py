"""Descriptions of devices in published tables lead to data sheets."""

import pytest

from fairlead.evaluate.cores import CoreCluster, count_of
from fairlead.evaluate.naming import longest_name, look_up_nearly, split_words, unit_of
from tests.latencies import SHEETS

PHONE = "Snapdragon 855+ (Kyro485 2.96 GHz + Kyro485 2.42 GHz x 3 + Kyro485 1.80 GHz x 4 + Adreno 640)"
ORIN = "NVIDIA Jetson AGX Orin (Cortex-A78AE 2.2 GHz x 12 + Ampere@1.3 GHz Tensor Cores 64)"
BOARD = "Raspberry Pi 4 Model B Broadcom BCM2711B0, Cortex-A72 (ARMv8) 1.8GHz x 4"


@pytest.mark.parametrize(
    ("device", "runtime", "precision", "kind"),
    [
        (PHONE, "ncnn", "", "cpu"),
        (PHONE, "ncnn Vulkan", "", "gpu"),
        (ORIN, "ncnn", "", "cpu"),
        (ORIN, "ncnn Vulkan", "", "gpu"),
        (BOARD, "ncnn", "fp32", "cpu"),
        ("NVIDIA Jetson Nano (CPU only)", "tf", "fp32", "cpu"),
        ("NVIDIA Jetson Nano", "TensorRT", "fp16", "gpu"),
        ("NVIDIA Orin", "TensorRT 8.4", "", "gpu"),
        ("Desktop CPU + Coral USB (USB 3.0)", "TFLite C++", "int8", "tpu"),
        ("Raspberry Pi 4B + Coral USB", "EdgeTPU runtime", "int8", "tpu"),
        ("Intel Core i7-1185G7 CPU-only", "OpenVINO", "fp16", "cpu"),
        ("Rockchip RV1109", "RKNPU2 2.3.2", "int8", "npu"),
        ("Snapdragon 8 Gen 3 QRD NPU", "qnn", "w8a8", "npu"),
        ("QCS8550 (Proxy) NPU", "tflite", "int8", "npu"),
        ("STM32N6570-DK", "ST Edge AI", "int8", "npu"),
        ("Hailo-8", "HailoRT", "int8", "npu"),
        ("RBLN ATOM", "RBLN SDK", "", "npu"),
        ("An unknown device", "", "", ""),
        ("", "", "", ""),
    ],
)
def test_device_and_runtime_decide_what_computes(
    device: str, runtime: str, precision: str, kind: str
) -> None:
    sheet = SHEETS.read(device, runtime, precision)
    assert sheet.kind == kind
    assert bool(sheet.ops) == bool(kind)


@pytest.mark.parametrize(
    "device",
    [
        "Jetson Orin Nano", "Jetson Nano Orin", "NVIDIA Jetson Nano Orin 8GB", "Orin Nano Jetson",
        "Jetson Orin 8GB Nano", "Jetson Orin Developer Kit Nano", "jetson_nano_orin",
        "JETSON-ORIN-NANO devkit", "Jetson Orin Nano (8GB)", "Jetson Orin module Nano",
    ],
)  # fmt: skip
def test_the_words_of_a_name_may_stand_in_any_order(device: str) -> None:
    assert SHEETS.read(device, "TensorRT", "fp16") == SHEETS.read("jetson-orin-nano", "TensorRT", "fp16")
    assert SHEETS.processors.ops(device, "") == SHEETS.processors.ops("Jetson Orin Nano", "")
    assert SHEETS.processors.ops(device, "") != SHEETS.processors.ops("Jetson Nano", "")


@pytest.mark.parametrize(
    ("device", "same"),
    [
        ("Jetson Xavier AGX", "Jetson AGX Xavier"),
        ("NX Orin Jetson", "Jetson Orin NX"),
        ("Orin AGX Jetson", "Jetson AGX Orin"),
        ("Jetson Nano", "NVIDIA Jetson Nano Developer Kit"),
        ("Jetson Nano B01", "Jetson Nano"),
        ("4090 RTX", "RTX 4090"),
        ("RTX Super 4070", "RTX 4070 Super"),
        ("Jetson Nano; Jetson Orin NX", "Jetson Orin NX"),
    ],
)
def test_other_orders_of_other_names(device: str, same: str) -> None:
    assert SHEETS.read(device, "", "") == SHEETS.read(same, "", "")


@pytest.mark.parametrize("device", ["ARM 2 core", "8 core ARM", "4 raspberry devices"])
def test_a_number_of_cores_is_no_part_of_a_name(device: str) -> None:
    assert SHEETS.read(device, "", "").ops is None


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        ("QCS8550 (Proxy) [CPU]", "cpu"), ("QCS9075 [CPU]", "cpu"), ("QCS9075 (CPU only)", "cpu"),
        ("QCS9075 CPU-only", "cpu"), ("QCS9075 CPU", "cpu"), ("QCS9075 ( CPU )", "cpu"),
        ("AX650N [cpu]", "cpu"),
        ("Snapdragon X2 Elite CRD [CPU]", "cpu"), ("A chip of no table [CPU]", "cpu"),
        ("QCS8550 (Proxy) [GPU]", "gpu"), ("RK3588 [GPU]", "gpu"), ("Raspberry Pi 5 [NPU]", "npu"),
        ("Intel Core i7-1185G7 iGPU-only", "gpu"), ("Jetson AGX Orin [NPU]", "npu"),
        ("Cortex-A76 2.4GHz x 4 iGPU-only", "gpu"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("runtime", ["", "tflite", "onnx", "qnn"])
def test_a_unit_of_unknown_figures_does_not_get_those_of_another(
    device: str, kind: str, runtime: str
) -> None:
    sheet = SHEETS.read(device, runtime, "int8")
    assert (sheet.kind, sheet.ops) == (kind, None)


@pytest.mark.parametrize(
    ("device", "kind", "ops"),
    [
        ("RK3588 [NPU]", "npu", 6e12),
        ("RK3588 NPU", "npu", 6e12),
        ("Snapdragon 8 Gen 3 QRD [NPU]", "npu", 45e12),
        ("Snapdragon 855 (Adreno 640) [GPU]", "gpu", 955e9),
        ("Hailo-8 [CPU: an unknown host]", "npu", 26e12),
        ("Atom host CPU + Hailo-8", "cpu", None),
    ],
)
def test_a_unit_of_known_figures_has_its_own(device: str, kind: str, ops: float | None) -> None:
    sheet = SHEETS.read(device, "", "")
    assert sheet.kind == kind
    assert ops is None or sheet.ops == pytest.approx(ops)


@pytest.mark.parametrize("precision", ["", "int8"])
def test_the_cores_of_a_unit_are_read_where_they_are_known(precision: str) -> None:
    for text in ("RK3588 [CPU]", "RK3588 (CPU only)", "RK3588 CPU", "Rockchip RK3588 CPU-only"):
        sheet = SHEETS.read(text, "tflite", precision)
        assert (sheet.kind, sheet.ops) == ("cpu", SHEETS.processors.ops("RK3588", precision))


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("X [CPU]", "cpu"), ("X (NPU)", "npu"), ("X [HTP]", "npu"), ("X DSP", "npu"), ("X dGPU-only", "gpu"),
        ("Desktop CPU (1 thread)", "cpu"), ("Desktop CPU + Coral USB (USB 3.0)", ""), ("X [CPU: Y]", ""),
        ("X", ""), ("CPUX", ""), ("RK3588 (1 NPU core)", ""),
    ],
)  # fmt: skip
def test_the_unit_that_a_description_names(text: str, unit: str) -> None:
    assert unit_of(text) == unit


@pytest.mark.parametrize(
    ("slow", "fast"),
    [
        ("Raspberry Pi 3 Model B", "Raspberry Pi 4B"),
        ("Raspberry Pi 4B", "Raspberry Pi 5"),
        ("Hi3516DV300 (Cortex-A7 900MHz x 2)", "RK3399 (Cortex-A72 1.8GHz x 2 + Cortex-A53 1.5GHz x 4)"),
        ("NVIDIA Jetson Nano", "NVIDIA Jetson AGX Orin"),
        ("NVIDIA Orin NX", "NVIDIA Orin"),
        ("Rockchip RK3588 (1 NPU core)", "Rockchip RK3588 (3 NPU cores)"),
        ("AWS cloud instance c5.xlarge [CPU: Xeon]", "AWS cloud instance c5.4xlarge [CPU: Xeon]"),
        ("Mali-G52 MP2", "Mali-G52 MP8"),
        ("Adreno 530", "Adreno 740"),
        ("NVIDIA T4", "NVIDIA A100-SXM4-40GB"),
    ],
)
def test_data_sheets_order_slow_and_fast_devices(slow: str, fast: str) -> None:
    below, above = (SHEETS.read(device, "", "").ops for device in (slow, fast))
    assert below is not None
    assert above is not None
    assert below < above


@pytest.mark.parametrize(
    ("device", "clusters"),
    [
        (BOARD, [CoreCluster(("cortex", "a72"), 4, 1.8)]),
        ("Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz", [CoreCluster(("xeon",), 0, 3.0)]),
        ("Workstation Zen4 [AMD Ryzen 9 7950X 16-Core]", [CoreCluster(("zen4",), 16, 0.0)]),
        ("MacBook Pro M1 [CPU: Apple M1]", [CoreCluster(("m1",), 0, 0.0)]),
        ("(Cortex-A7 900MHz x 2)", [CoreCluster(("cortex", "a7"), 2, 0.9)]),
        ("Quad Core Cortex-A76 2.4GHz", [CoreCluster(("cortex", "a76"), 4, 2.4)]),
        ("a1.2xlarge [CPU: Cortex-A72]", [CoreCluster(("cortex", "a72"), 8, 0.0)]),
        ("c5.2xlarge [CPU: Xeon]", [CoreCluster(("xeon",), 4, 0.0)]),
        (
            "Cortex-A76 (big); Cortex-A55 (LITTLE)",
            [CoreCluster(("cortex", "a76")), CoreCluster(("cortex", "a55"))],
        ),
    ],
)
def test_cores_are_read_with_their_number_and_clock(device: str, clusters: list[CoreCluster]) -> None:
    assert SHEETS.processors.clusters(device) == clusters


def test_a_core_without_a_number_beside_clusters_is_single() -> None:
    assert [(cluster.count, cluster.clock) for cluster in SHEETS.processors.clusters(PHONE)] == [
        (1, 2.96),
        (3, 2.42),
        (4, 1.8),
    ]


def test_narrow_numbers_are_faster_where_the_cores_gain_by_them() -> None:
    new, old = (
        [SHEETS.processors.ops(device, precision) for precision in ("fp32", "int8")]
        for device in ("Cortex-A76 2.0GHz x 4", "Cortex-A72 2.0GHz x 4")
    )
    assert new[1] == pytest.approx(2 * (new[0] or 0))
    assert old[0] == old[1]


@pytest.mark.parametrize(
    ("device", "precision", "ops"),
    [
        ("Rockchip RK1808", "int8", 3e12),
        ("Rockchip RK1808", "fp16", 0.1e12),
        ("Rockchip RK3566", "fp16", 0.5e12),
        ("Arm Mali-G52 MP2", "", 96e9),
        ("Arm Mali-G52 MP6 GPU", "", 77e9),
        ("ARM Mali G52MP8(8EE)", "", 103e9),
    ],
)
def test_figures_that_do_not_follow_from_others(device: str, precision: str, ops: float) -> None:
    assert SHEETS.read(device, "OpenCL" if "Mali" in device else "RKNN", precision).ops == pytest.approx(ops)


@pytest.mark.parametrize(
    ("text", "count"), [("x 4", 4), ("mp8", 8), ("16-core", 16), ("octa core", 8), ("none", 0)]
)
def test_numbers_of_cores(text: str, count: int) -> None:
    assert count_of(text) == count


def test_names_are_found_word_by_word() -> None:
    table = {("orin",): 1, ("orin", "nx"): 2, ("stm32h7",): 3}
    assert split_words("Cortex-A72_r0p3 (ARMv8)") == ["cortex", "a72", "r0p3", "armv8"]
    assert longest_name(split_words("NVIDIA Orin NX 16GB"), table) == ("orin", "nx")
    assert longest_name(split_words("STM32H747I-DISCO"), table) == ("stm32h7",)
    assert longest_name(split_words("Orinoco"), table) is None
    assert look_up_nearly(split_words("Orin NX"), {("jetson", "orin", "nx"): 1, ("orin", "9"): 2}) == 1
