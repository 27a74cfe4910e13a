"""Which units a kubelet should allocate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.offer import Block, Offer
from fairlead.publish.prefer import prefer

SHARES = Offer(
    "fairlead.dev/gpu-mem",
    (
        Block("gpu-1", "aaaaa", 0, 8, True, True),
        Block("gpu-2", "bbbbb", 0, 3, True, True),
        Block("gpu-2", "bbbbb", 3, 2, False, True),
        Block("gpu-3", "ccccc", 0, 3, True, True),
    ),
)
WHOLES = Offer("fairlead.dev/t4", tuple(Block(name, name) for name in ("gpu-2", "gpu-10", "gpu-1")))


def units(prefix: str, *numbers: int) -> list[str]:
    return [f"{prefix}-{number}" for number in numbers]


A, B, C = units("aaaaa", *range(8)), units("bbbbb", 0, 1, 2), units("ccccc", 0, 1, 2)


@pytest.mark.parametrize(
    ("available", "required", "size", "expected"),
    [
        ([*A, *B, *C], [], 2, C[:2]),  # as much is free on gpu-2; claims begin with the first
        ([*A, *C], [], 2, C[:2]),
        ([*A, *B, *C], [], 3, C),
        ([*A, *B, *C], [], 4, A[:4]),
        ([*A, *B, *C], [], 9, []),
        ([*reversed(A)], [], 3, A[:3]),
        (units("aaaaa", 1, 4, 6, 7), [], 3, units("aaaaa", 1, 4, 6)),
        ([*A, *B, *C], [A[5]], 2, [A[5], A[0]]),
        ([*A, *B, *C], [B[1]], 4, []),
        ([*A, *B, *C], [B[1], C[1]], 3, []),
        ([*A, *B], A[2:4], 2, A[2:4]),
        ([*A, *B], A[2:4], 1, []),
        (["zzzzz-1", "nonsense"], [], 1, []),
        ([], [], 1, []),
    ],
)
def test_a_share(available: list[str], required: list[str], size: int, expected: list[str]) -> None:
    assert prefer(SHARES, available, required, size) == expected


@pytest.mark.parametrize(
    ("available", "required", "size", "expected"),
    [
        (["gpu-2", "gpu-10", "gpu-1"], [], 1, ["gpu-1"]),
        (["gpu-2", "gpu-10", "gpu-1"], ["gpu-2"], 2, ["gpu-2", "gpu-1"]),
        (["gpu-2"], [], 2, []),
    ],
)
def test_whole_ones(available: list[str], required: list[str], size: int, expected: list[str]) -> None:
    assert prefer(WHOLES, available, required, size) == expected


@given(st.sets(st.sampled_from([*A, *B, *C])), st.data(), st.integers(1, 9))
def test_every_choice_is_valid(available: set[str], data: st.DataObject, size: int) -> None:
    required = data.draw(
        st.sets(st.sampled_from(sorted(available)), max_size=2) if available else st.just(set())
    )
    chosen = prefer(SHARES, sorted(available), sorted(required), size)
    if chosen:
        assert len(chosen) == len(set(chosen)) == size
        assert required <= set(chosen) <= available
        assert len({unit[:5] for unit in chosen}) == 1


def test_a_hundred_and_fifty_thousand_units() -> None:
    offer = Offer("x", tuple(Block(f"gpu-{n}", f"name{n}", 0, 75_000, True, True) for n in range(2)))
    available = [unit for block in offer.blocks for unit in block.ids()]
    assert prefer(offer, available[:-1], [], 74_999) == available[75_000:-1]
