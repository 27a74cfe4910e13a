"""The protobuf codec: messages of other implementations, malformed ones, and round trips."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fairlead import varint
from fairlead.kubelet import messages as wire
from fairlead.kubelet.proto import Message, at, decode, encode, map_at


@dataclass(frozen=True, slots=True)
class Leaf:
    text: str = at(1, "")
    maybe: str | None = at(2, None)


@dataclass(frozen=True, slots=True)
class Tree:
    """A field of every kind."""

    text: str = at(1, "")
    raw: bytes = at(2, b"")
    flag: bool = at(3, False)
    small: int = at(4, 0, bits=32)
    large: int = at(5, 0)
    leaf: Leaf | None = at(6, None)  # noqa: RUF009  # it makes a field
    texts: tuple[str, ...] = at(7, ())
    raws: tuple[bytes, ...] = at(8, ())
    leaves: tuple[Leaf, ...] = at(9, ())
    names: Mapping[str, str] = map_at(10)
    twigs: Mapping[str, Leaf] = map_at(11)
    far: tuple[str, ...] = at(3000, ())


@dataclass(frozen=True, slots=True)
class Endless:
    inner: "Endless | None" = at(1, None)  # noqa: RUF009  # it makes a field


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def leaves() -> SearchStrategy[Leaf]:
    return st.builds(Leaf, TEXT, st.none() | TEXT)


def trees() -> SearchStrategy[Tree]:
    def tuples(of: SearchStrategy[Any]) -> SearchStrategy[tuple[Any, ...]]:
        return st.lists(of, max_size=4).map(tuple)

    return st.builds(
        Tree,
        text=TEXT,
        raw=st.binary(max_size=200),
        flag=st.booleans(),
        small=st.integers(-(2**31), 2**31 - 1),
        large=st.integers(-(2**63), 2**63 - 1),
        leaf=st.none() | leaves(),
        texts=tuples(TEXT),
        raws=tuples(st.binary(max_size=200)),
        leaves=tuples(leaves()),
        names=st.dictionaries(TEXT, TEXT, max_size=4),
        twigs=st.dictionaries(TEXT, leaves(), max_size=4),
        far=tuples(TEXT),
    )


@given(trees())
def test_an_encoded_message_decodes_to_itself(tree: Tree) -> None:
    assert decode(Tree, encode(tree)) == tree


@given(trees(), trees())
def test_two_concatenated_messages_are_merged(first: Tree, second: Tree) -> None:
    both = decode(Tree, encode(first) + encode(second))
    assert both.texts == first.texts + second.texts
    assert both.leaves == first.leaves + second.leaves
    assert both.names == {**first.names, **second.names}
    assert both.large == (second.large or first.large)


@given(trees())
def test_unknown_fields_are_skipped(tree: Tree) -> None:
    known = decode(Leaf, encode(Tree(text=tree.text, texts=tree.texts, twigs=tree.twigs, large=tree.large)))
    assert known == Leaf(tree.text)


@given(st.binary(max_size=300))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for message in (Tree, wire.AllocateRequest, wire.ListPodResourcesResponse, wire.NodeResourcesRequest):
        try:
            decode(message, data)
        except ValueError:
            continue


@given(trees(), st.data())
def test_corrupted_messages_are_decoded_or_refused(tree: Tree, data: st.DataObject) -> None:
    written = bytearray(encode(tree))
    for _ in range(data.draw(st.integers(0, 3))):
        if written:
            written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(Tree, bytes(written[: data.draw(st.integers(0, len(written)))]))
    except ValueError:
        return


REFUSED = {
    "a length beyond the end": "0a05",
    "a length beyond the end of a run": "3a01613a05",
    "a run that ends after its tag": "3a01613a",
    "a length without an end": "0a" + "ff" * 5,
    "a number without an end": "28ff",
    "a number of eleven bytes": "28" + "80" * 10 + "01",
    "a nested message beyond its own end": "32030a05616161616161",
    "field zero": "0001",
    "a field beyond the last": "ffffffff7f01",
    "a group": "630b",
    "no such wire type": "0e",
    "text that is none": "0a02c328",
    "text of a run that is none": "3a02c328",
    "a key that is none": "52040a02c328",
    "half of a fixed number": "a50601",
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_malformed_messages_are_refused(data: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # a caller may rely on the type alone
        decode(Tree, bytes.fromhex(data))


TAKEN: dict[str, tuple[str, Tree]] = {
    "nothing": ("", Tree()),
    "the last of several": ("0a01610a0162", Tree(text="b")),
    "a known number in an unknown shape": ("08011d00000000210000000000000000", Tree()),
    "a length that is longer than it must be": ("0a81800061", Tree(text="a")),
    "a run in pieces": ("3a016118013a0162", Tree(texts=("a", "b"), flag=True)),
    "a run of long ones": ("3a8001" + "61" * 128 + "3a00", Tree(texts=("a" * 128, ""))),
    "a map's entry of nothing": ("52005a00", Tree(names={"": ""}, twigs={"": Leaf()})),
    "a map's entry the wrong way round": ("52061201760a016b", Tree(names={"k": "v"})),
    "a map's entry with more in it": ("52080a016b1201761805", Tree(names={"k": "v"})),
    "an optional text that is there and empty": ("32021200", Tree(leaf=Leaf(maybe=""))),
    "a small number of 64 bits": ("20" + "ff" * 9 + "01", Tree(small=-1)),
    "a truth of another number": ("1802", Tree(flag=True)),
}


@pytest.mark.parametrize(("data", "expected"), TAKEN.values(), ids=TAKEN)
def test_unusual_but_valid_messages_are_decoded(data: str, expected: Tree) -> None:
    assert decode(Tree, bytes.fromhex(data)) == expected


def test_depth_is_bounded() -> None:
    data = b""
    for _ in range(1000):
        data = b"\x0a" + varint.encode(len(data)) + data
    with pytest.raises(ValueError, match="deep"):
        decode(Endless, data)


def test_a_field_of_an_unsupported_type_is_a_type_error() -> None:
    @dataclass(frozen=True, slots=True)
    class Odd:
        numbers: tuple[int, ...] = at(1, ())

    with pytest.raises(TypeError, match="numbers"):
        encode(Odd())


# What Google's own library writes for the kubelet's own api.proto files (protobuf 7.36, kubelet 0.37.1)

SEEN: dict[str, tuple[Message, str]] = {
    "PluginInfo": (
        wire.PluginInfo("DRAPlugin", "fairlead.dev", "/p/dra.sock", ("v1.DRAPlugin", "v1beta1.DRAPlugin")),
        "0a09445241506c7567696e120c666169726c6561642e6465761a0b2f702f6472612e736f636b220c76312e44524150"
        "6c7567696e2211763162657461312e445241506c7567696e",
    ),
    "RegistrationStatus": (wire.RegistrationStatus(True), "0801"),
    "RegistrationStatus with an error": (wire.RegistrationStatus(error="nö"), "12036ec3b6"),
    "DevicePluginOptions": (wire.DevicePluginOptions(get_preferred_allocation_available=True), "1001"),
    "ListAndWatchResponse": (
        wire.ListAndWatchResponse((wire.Device("g0-9", "Healthy"), wire.Device("g0-10", "Unhealthy"))),
        "0a0f0a0467302d3912074865616c7468790a120a0567302d31301209556e6865616c746879",
    ),
    "PreferredAllocationRequest": (
        wire.PreferredAllocationRequest(
            (
                wire.ContainerPreferredAllocationRequest(("a", "b" * 130), ("a",), 2),
                wire.ContainerPreferredAllocationRequest(allocation_size=-5),
            )
        ),
        "0a8d010a01610a8201" + "62" * 130 + "12016118020a0b18fbffffffffffffffff01",
    ),
    "PreferredAllocationResponse": (
        wire.PreferredAllocationResponse((wire.ContainerPreferredAllocationResponse(("a", "b")),)),
        "0a060a01610a0162",
    ),
    "AllocateRequest": (
        wire.AllocateRequest((wire.ContainerAllocateRequest(("a", "b")), wire.ContainerAllocateRequest())),
        "0a060a01610a01620a00",
    ),
    "AllocateResponse": (
        wire.AllocateResponse(
            (
                wire.ContainerAllocateResponse(
                    {"A": "1", "B": ""},
                    (wire.DeviceSpec("/dev/a", "/dev/b", "rw"),),
                    (wire.CDIDevice("fairlead.dev/gpu=g0"),),
                ),
            )
        ),
        "0a3c0a060a01411201310a050a014212001a140a062f6465762f6112062f6465762f621a0272772a150a13666169726c"
        "6561642e6465762f6770753d6730",
    ),
    "NodePrepareResourcesRequest": (
        wire.NodeResourcesRequest((wire.Claim("ns", "u1", "c1"), wire.Claim(uid="u2"))),
        "0a0c0a026e73120275311a0263310a0412027532",
    ),
    "NodePrepareResourcesResponse": (
        wire.NodePrepareResourcesResponse(
            {
                "u1": wire.NodePrepareResourceResponse(
                    (
                        wire.PreparedDevice(
                            ("r", "s"), "node-1", "gpu-0", ("fairlead.dev/claim=u1",), share_id=""
                        ),
                    )
                ),
                "u2": wire.NodePrepareResourceResponse(error="no"),
                "u3": wire.NodePrepareResourceResponse(),
            }
        ),
        "0a360a02753112300a2e0a01720a017312066e6f64652d311a056770752d302215666169726c6561642e6465762f636c"
        "61696d3d75312a000a0a0a027532120412026e6f0a060a0275331200",
    ),
    "NodeUnprepareResourcesResponse": (
        wire.NodeUnprepareResourcesResponse(
            {
                "u1": wire.NodeUnprepareResourceResponse(),
                "u2": wire.NodeUnprepareResourceResponse("busy"),
            }
        ),
        "0a060a02753112000a0c0a02753212060a0462757379",
    ),
}


@pytest.mark.parametrize(("message", "data"), SEEN.values(), ids=SEEN)
def test_encodes_and_decodes_like_other_implementations(message: Message, data: str) -> None:
    assert encode(message).hex() == data
    assert decode(type(message), bytes.fromhex(data)) == message


FULLER: dict[str, tuple[Message, str]] = {
    "a device with its place": (
        wire.ListAndWatchResponse((wire.Device("d", "Healthy"),)),
        "0a200a016412074865616c7468791a120a0b08ffffffffffffffffff010a0308ac02",
    ),
    "an allocation with mounts and annotations": (
        wire.AllocateResponse(
            (wire.ContainerAllocateResponse({"A": "1"}, mounts=(wire.Mount("/a", "/b", read_only=True),)),)
        ),
        "0a1c0a060a0141120131120a0a022f6112022f62180122060a016b120176",
    ),
}


@pytest.mark.parametrize(("message", "data"), FULLER.values(), ids=FULLER)
def test_skips_fields_that_are_not_declared(message: Message, data: str) -> None:
    assert decode(type(message), bytes.fromhex(data)) == message
