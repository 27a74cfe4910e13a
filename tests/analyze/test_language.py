"""Decoders of language models: what one run of their file is, and what is none."""

from pathlib import Path

import pytest

from fairlead.analyze.language import scope_of
from fairlead.units import Bytes
from fairlead.workload import Operator, Tensor
from fairlead.zoo import BUILDERS
from tests.analyze.models import graph, node, profile, value, weight
from tests.estimate.networks import network

AFTER = ": tokens per second and the growing KV cache are not predicted"
WORDS, WIDTH = 2000, 8


def tokens(name: str = "input_ids", *dims: int | None) -> Tensor:
    return Tensor(name, dims or (1, 16), "int64")


def scores(*dims: int | None, name: str = "logits") -> Tensor:
    return Tensor(name, dims or (1, 16, 32000), "fp32")


def cache(name: str, length: int | None = 64, *, rank: int = 4) -> Tensor:
    return Tensor(name, (2, 1, 8, length, 64)[5 - rank :], "fp16")


HF = [cache("past_key_values.0.key"), cache("past_key_values.0.value")]
PRESENT = [cache("present.0.key", 65), cache("present.0.value", 65)]


@pytest.mark.parametrize(
    ("inputs", "outputs", "shapes"),
    [
        ([tokens("input_ids", 1, 1), *HF], [scores(1, 1, 32000), *PRESENT], " (1 token, a KV cache of 64)"),
        ([tokens("input_ids", 4, 1), *HF], [scores(4, 1, 32000), *PRESENT],
         " (4 x 1 token, a KV cache of 64)"),
        ([tokens(), tokens("attention_mask")], [scores()], " (16 tokens)"),
        ([tokens()], [scores(1, 1, 32000)], " (16 tokens)"),
        ([tokens("input1", 1, 16), cache("past_0", rank=5)], [scores(), cache("present_0", 80, rank=5)],
         " (16 tokens, a KV cache of 64)"),
        ([tokens("decode_tokens:0", 1, 1), cache("decode_kv_cache_k_0:0"),
          cache("decode_kv_cache_v_0:0")], [scores(1, 1, 32000)], " (1 token, a KV cache of 64)"),
        ([Tensor("inputs_embeds", (1, 3, 512), "fp32"), cache("k_cache"), cache("v_cache")],
         [scores(1, 3, 9)], " (a KV cache of 64)"),
        ([tokens("decoder_input_ids", 1, 4), Tensor("encoder_hidden_states", (1, 50, 64), "fp32")],
         [scores(1, 4, 51865)], " (4 tokens)"),
        ([tokens("input_ids", None, None), *HF], [scores(None, None, 32000)], " (a KV cache of 64)"),
    ],
)  # fmt: skip
def test_a_decoder_is_one_forward_pass(inputs: list[Tensor], outputs: list[Tensor], shapes: str) -> None:
    assert scope_of(inputs, outputs, ()) == f"one forward pass of a language model{shapes}{AFTER}"


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ([tokens(), tokens("attention_mask")], [Tensor("last_hidden_state", (1, 16, 768), "fp32")]),
        ([tokens()], [scores(1, 2)]),  # a classifier of sentences
        ([tokens()], [scores(1, 16, 9)]),  # a tagger
        ([Tensor("image", (1, 3, 224, 224), "fp32")], [scores(1, 1000)]),
        ([Tensor("image", (1, 3, 224, 224), "uint8")], [scores(1, 900, 1203)]),
        ([Tensor("past_values", (1, 64, 7), "fp32"), Tensor("past_time_features", (1, 64, 4), "fp32")],
         [Tensor("forecast", (1, 24, 7), "fp32")]),  # a series in time
        ([Tensor("audio", (1, 80, 100), "fp32"), Tensor("cache_last_channel", (17, 1, 70, 512), "fp32"),
          Tensor("cache_last_time", (17, 1, 512, 8), "fp32")], [scores(1, 25, 1025)]),  # speech as a stream
        ([tokens("user_ids", 1, 16), tokens("item_ids", 1, 16)], [Tensor("score", (1, 16), "fp32")]),
    ],
)  # fmt: skip
def test_another_model_is_none(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    assert scope_of(inputs, outputs, ()) == ""


def table(rows: int, columns: int) -> Operator:
    size = Bytes(4 * rows * columns)
    return Operator("", "Gather", "embedding", 0, rows * columns, size, size, size, "fp32", 0)


@pytest.mark.parametrize(
    ("output", "words"),
    [((1, 16, 30522), True), ((1, 16, 1024), False), ((1, 16, 512), False), ((1, 16, 30000), False)],
)
def test_hidden_values_are_no_scores_of_words(output: tuple[int, ...], words: bool) -> None:
    tables = [table(30522, 1024), table(512, 1024), table(2, 1024)]
    found = scope_of([tokens()], [Tensor("output_0", output, "fp32")], tables)
    assert bool(found) == words


@pytest.mark.parametrize("name", BUILDERS)
def test_no_network_of_the_zoo_is_a_decoder(name: str) -> None:
    assert network(name).scope == ""


def test_a_file_says_so_in_its_first_note(tmp_path: Path) -> None:
    small = graph(
        [
            node("Gather", "table ids", "x"),
            node("MatMul", "x head", "y"),
        ],
        [value("ids", 1, "length", dtype="int64")],
        [weight("table", WORDS, WIDTH), weight("head", WIDTH, WORDS)],
    )
    found = profile(tmp_path, small, length=(12,))
    assert found.scope == f"one forward pass of a language model (12 tokens){AFTER}"
    assert found.notes[0] == found.to_json()["scope"] == found.scope
