"""The device list: encoded from blocks, byte for byte what the codec encodes from units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fairlead.kubelet.listing import LIST_LIMIT, check, encode_list, encoded_size
from fairlead.kubelet.messages import Device, ListAndWatchResponse
from fairlead.kubelet.proto import encode
from fairlead.offer import Block, Offer


def blocks() -> SearchStrategy[Block]:
    whole = st.builds(Block, st.just("a"), st.text("abé-", min_size=1, max_size=200), healthy=st.booleans())
    many = st.builds(
        Block,
        st.just("a"),
        st.text("abé-", max_size=130),
        first=st.integers(0, 1200),
        count=st.integers(0, 1200),
        healthy=st.booleans(),
        many=st.just(True),
    )
    return whole | many


@given(st.lists(blocks(), max_size=3))
def test_the_encoded_list_equals_that_of_its_units(made: list[Block]) -> None:
    offer = Offer("fairlead.dev/x", tuple(made))
    units = [
        Device(unit, "Healthy" if block.healthy else "Unhealthy")
        for block in offer.blocks
        for unit in block.ids()
    ]
    assert encode_list(offer) == encode(ListAndWatchResponse(tuple(units)))
    assert encoded_size(offer) == len(encode_list(offer))


def gpu(count: int) -> Offer:
    return Offer("fairlead.dev/gpu-mem", (Block("pci-0", "g0", count=count, many=True),))


def test_a_list_of_the_largest_accelerators() -> None:
    offer = gpu(150_000)
    listed = encode_list(offer)
    assert listed.count(b"Healthy") == 150_000
    assert listed.endswith(b"g0-149999\x12\x07Healthy")
    assert encoded_size(offer) == len(listed) <= LIST_LIMIT


def test_a_list_that_is_too_long_is_refused_before_it_is_encoded() -> None:
    most = next(count for count in range(190_000, 210_000) if encoded_size(gpu(count)) > LIST_LIMIT) - 1
    assert check(gpu(most)) == gpu(most)
    with pytest.raises(
        ValueError, match=f"fairlead.dev/gpu-mem: a list of {most + 1} units is .* offer fewer"
    ):
        check(gpu(most + 1))
