"""Bounds of an untrusted file: whatever it holds, the analysis ends soon and uses little memory."""

from typing import Final

NODES: Final = 100_000
"""Operators, with the bodies of functions and branches inlined."""
EDGES: Final = 400_000
"""Inputs and outputs of all operators together."""
TENSORS: Final = 200_000
"""Constants and described values."""
VALUES_NAMED: Final = 400_000
"""Values and constants, with bodies inlined."""
FIELDS: Final = 3_000_000
"""Fields of the file that are parsed."""
NAME: Final = 16 * 1024
"""Bytes of one name."""
TEXT: Final = 64 * 1024 * 1024
"""Bytes of all names together."""
DEPTH: Final = 16
"""Nesting of bodies and calls."""
RANK: Final = 32
"""Dimensions of one tensor."""
ELEMENTS: Final = 2**48
"""Elements of one tensor: no machine holds more."""
VALUES: Final = 1024
"""Elements of a constant whose values are read, because a shape may depend on them."""
FOLDED: Final = 4_000_000
"""Elements computed by constant folding, all together."""
LISTED: Final = 4096
"""Items of a list attribute; the rest is not read."""
NOTES: Final = 50
"""Notes of one analysis."""
