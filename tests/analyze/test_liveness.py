"""The peak memory of values between operators."""

from pathlib import Path

from fairlead.analyze.graph import Fact
from fairlead.analyze.liveness import peak
from fairlead.analyze.program import Program, Step
from fairlead.zoo.mobile import mobilenet_v2
from tests.analyze.models import profile


def program(steps: str, kinds: str = "conv", outputs: str = "y", **sizes: int) -> Program:
    """Make a program from lines like `x a -> b`; sizes are bytes, with one kind for all steps or one each."""
    lines = [line.split("->") for line in steps.split(";")]
    each = kinds.split() * len(lines) if " " not in kinds else kinds.split()
    steps_ = tuple(
        Step(f"s{at}", "Op", kind, tuple(inputs.split()), tuple(outputs_.split()))
        for at, ((inputs, outputs_), kind) in enumerate(zip(lines, each, strict=False))
    )
    facts = {name: Fact("int8", (size,)) for name, size in sizes.items()}
    return Program(steps_, facts, {}, ("x",), tuple(outputs.split()))


def test_a_chain_holds_two_values_at_a_time() -> None:
    assert peak(program("x -> a; a -> b; b -> y", x=10, a=100, b=30, y=1)) == 130


def test_a_skip_connection_keeps_its_value_alive() -> None:
    assert peak(program("x -> a; a -> b; b -> c; c a -> y", x=1, a=50, b=20, c=20, y=50)) == 50 + 20 + 50


def test_pointwise_work_overwrites_a_value_without_later_readers() -> None:
    chain = program("x -> a; a -> b; b -> y", "elementwise", x=10, a=10, b=10, y=10)
    assert peak(chain) == 20
    assert peak(chain, in_place=False) == 20
    longer = program("x -> a; a -> b; b a -> y", "conv elementwise elementwise", x=1, a=10, b=10, y=10)
    assert peak(longer) == 20
    assert peak(longer, in_place=False) == 30


def test_inputs_are_never_overwritten_and_outputs_stay() -> None:
    assert peak(program("x -> y", "activation", x=10, y=10)) == 20
    assert peak(program("x -> y; x -> a; a -> z", outputs="y z", x=1, y=40, a=7, z=8)) == 40 + 7 + 8


def test_a_view_shares_the_memory_of_its_input() -> None:
    plain = program("x -> a; a -> b; b -> y", x=1, a=100, b=100, y=5)
    steps = (plain.steps[0], Step("v", "Reshape", "move", ("a",), ("b",)), plain.steps[2])
    assert peak(Program(steps, plain.facts, {}, ("x",), ("y",))) == 105


def test_an_unread_value_is_freed() -> None:
    assert peak(program("x -> a b; a -> y", x=1, a=10, b=500, y=10)) == 511


def test_a_published_network(tmp_path: Path) -> None:
    """MobileNetV2 holds 1,470 KiB of bytes at its widest, hence four times that in fp32."""
    assert profile(tmp_path, mobilenet_v2()).peak_bytes == 4 * 1470 * 1024
