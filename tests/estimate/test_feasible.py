"""Whether a model runs, through which runtime, and which conversions it needs."""

import re
from dataclasses import replace

import pytest

from fairlead.estimate.feasible import LACKING, ExecutionPlan, Infeasible, UnknownSpeed, execution_plan, rate
from fairlead.estimate.speeds import speed
from fairlead.estimate.target import target
from fairlead.units import Ops
from fairlead.workload import Profile
from tests.catalogs import shipped
from tests.estimate.networks import network


def plan_for(
    device: str, profile: Profile, requested: str | None = None
) -> ExecutionPlan | Infeasible | UnknownSpeed:
    where = target(device, shipped())
    known = speed(where.kind, where.vendor, where.family)
    return execution_plan(profile, known, tuple(where.rates), requested, family=where.family)


def feasible_plan(
    device: str, profile: Profile, requested: str | None = None
) -> tuple[str, str, tuple[str, ...]]:
    plan = plan_for(device, profile, requested)
    assert isinstance(plan, ExecutionPlan)
    return plan.runtime.name, plan.precision, plan.needs


MOBILE, TRANSFORMER = network("mobilenet_v1"), network("vit_tiny")
COMPILE = "compile it with the Edge TPU compiler"
TFLITE, INT8 = "convert it to tflite", "quantise it to int8"
HAILO = "compile it with Hailo's Dataflow Compiler"


@pytest.mark.parametrize(
    ("device", "own", "form", "asked", "expected"),
    [
        ("t4", "fp32", "onnx", None, ("tensorrt", "fp32", ())),
        ("t4", "fp32", "onnx", "int8", ("tensorrt", "int8", ())),
        ("jetson-tx2", "int8", "onnx", None, ("tensorrt", "fp16", ("convert it to fp16",))),
        ("gb300", "fp32", "onnx", None, ("tensorrt", "fp16", ())),
        ("t4", "fp32", "tflite", None, ("tensorrt", "fp32", ("convert it to onnx",))),
        ("t4", "unknown", "onnx", None, ("tensorrt", "fp32", ())),
        ("hailo-8", "fp32", "onnx", None, ("hailort", "int8", (INT8, HAILO))),
        ("hailo-8", "fp32", "onnx", "int8", ("hailort", "int8", (HAILO,))),
        ("coral-usb", "fp32", "onnx", None, ("edgetpu", "int8", (TFLITE, INT8, COMPILE))),
        ("coral-usb", "int8", "tflite", None, ("edgetpu", "int8", (COMPILE,))),
        ("coral-usb", "fp32", "onnx", "int8", ("edgetpu", "int8", (TFLITE, COMPILE))),
    ],
)  # fmt: skip
def test_the_plan_names_runtime_precision_and_conversions(
    device: str, own: str, form: str, asked: str | None, expected: tuple[str, str, tuple[str, ...]]
) -> None:
    profile = replace(MOBILE, precision=own, format=form)
    assert feasible_plan(device, profile, asked) == expected


def test_an_unsupported_operator_is_a_reason() -> None:
    plan = plan_for("coral-usb", TRANSFORMER, "int8")
    assert isinstance(plan, Infeasible)
    assert plan.runtime == "edgetpu"
    assert any("does not run LayerNormalization" in reason for reason in plan.reasons)
    assert not [reason for reason in plan.reasons if reason.startswith(("format:", "precision:"))]


def test_the_next_runtime_is_tried_where_the_first_refuses() -> None:
    odd = replace(MOBILE, unsupported={"tensorrt": ("operator: TensorRT does not run QLinearConv",)})
    assert feasible_plan("t4", odd)[0] == "onnxruntime-cuda"


def test_a_runtime_that_takes_the_file_as_it_is_comes_first() -> None:
    cpu = speed("cpu", "", "cpu-x86")
    for form, runtime in (("onnx", "onnxruntime-cpu"), ("tflite", "tflite")):
        plan = execution_plan(replace(MOBILE, format=form, unsupported={}), cpu, ("fp32",), None)
        assert isinstance(plan, ExecutionPlan)
        assert (plan.runtime.name, plan.needs) == (runtime, ())


def test_a_model_that_falls_back_in_part_runs() -> None:
    reason = "operator: it runs on the CPU"
    odd = replace(MOBILE, unsupported={"tensorrt": (reason,), "onnxruntime-cuda": (reason,)})
    assert feasible_plan("t4", odd)[0] == "onnxruntime-cuda"


@pytest.mark.parametrize(
    ("device", "asked", "computes"),
    [
        ("jetson-tx2", "int8", "fp16 and fp32"),
        ("m40", "fp16", "fp32"),
        ("coral-usb", "fp16", "int8"),
        ("hailo-8", "fp16", "int8"),
        ("t4", "fp8", "fp16, int8, int4 and fp32"),
    ],
)
def test_a_requested_precision_that_the_device_lacks_is_refused(
    device: str, asked: str, computes: str
) -> None:
    plan = plan_for(device, MOBILE, asked)
    assert isinstance(plan, Infeasible)
    [reason] = plan.reasons
    head, _, tail = reason.partition(", not in ")
    assert (set(re.findall(r"[a-z]+[0-9]+", head)), tail) == (
        set(re.findall(r"[a-z]+[0-9]+", computes)),
        asked,
    )


@pytest.mark.parametrize(
    ("device", "asked"),
    [("gtx-1650", "int8"), ("rx-6600", "int8"), ("v100", "int8"), ("gb10", "fp16"), ("gtx-1080", "fp16"),
     ("intel-npu-lunar-lake", "fp16"), ("tpu-v4", "fp16")],
)  # fmt: skip
def test_a_precision_that_a_data_sheet_does_not_list_is_not_known(device: str, asked: str) -> None:
    plan = plan_for(device, MOBILE, asked)
    assert isinstance(plan, UnknownSpeed)
    assert plan.reason.startswith("not known: no peak in the catalog but in ")
    assert plan.reason.endswith(f"; calibrate in {asked}, or add a row")
    assert plan.plan.precision == asked


def test_families_that_lack_a_precision_are_families_of_the_catalog() -> None:
    families = {row.family for row in shipped().devices.values()}
    assert families >= {family for lacking in LACKING.values() for family in lacking}


def test_a_device_without_a_peak_is_not_guessed() -> None:
    plan = plan_for("cpu-x86-64-avx2", MOBILE)
    assert isinstance(plan, UnknownSpeed)
    assert plan.reason == "not known: no peak in the catalog; calibrate, or add a row"
    assert (plan.plan.runtime.name, plan.plan.precision) == ("onnxruntime-cpu", "fp32")


def test_an_operator_that_does_not_run_is_known_without_a_peak() -> None:
    odd = replace(MOBILE, unsupported={"edgetpu": ("operator: it does not run X",)})
    known = speed("tpu", "Google", "edge-tpu")
    assert known.runtimes == ("edgetpu",)
    assert execution_plan(odd, known, (), None) == Infeasible(("operator: it does not run X",), "edgetpu")


@pytest.mark.parametrize(
    ("available", "asked", "complete", "reason"),
    [
        (("fp8",), None, True, "no peak in the catalog but in fp8; calibrate in fp32, or add a row"),
        (("fp32",), "int8", False, "calibrated in fp32 only; calibrate in int8, or add a row"),
    ],
)
def test_an_incomplete_list_of_precisions_is_no_reason_against_a_device(
    available: tuple[str, ...], asked: str | None, complete: bool, reason: str
) -> None:
    plan = execution_plan(MOBILE, speed("cpu", "", "cpu-x86"), available, asked, complete=complete)
    assert isinstance(plan, UnknownSpeed)
    assert plan.reason == f"not known: {reason}"


def test_fp32_is_computed_on_tensor_cores_where_there_are_any() -> None:
    assert rate("fp32", {"fp32": Ops(2.0), "tf32": Ops(16.0)}) == Ops(16.0)
    assert rate("fp32", {"fp32": Ops(2.0), "fp16": Ops(16.0)}) == Ops(2.0)
    assert rate("int8", {"fp32": Ops(2.0)}) == Ops(0.0)
