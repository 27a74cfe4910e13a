"""Types of the values that travel between stages: tensors, images and records."""

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairlead.compat import StrEnum

_TENSOR: Final = re.compile(r"Tensor\(\s*([a-z]+[0-9]*)\s*(?:,\s*([0-9?]+(?:x[0-9?]+)*)\s*)?\)")
_EXAMPLES: Final = "Image, Record, Tensor, Tensor(float32) or Tensor(float32, 1x3x?x224)"


class PortKind(StrEnum):
    """What a port carries."""

    ANY = "Any"
    TENSOR = "Tensor"
    IMAGE = "Image"
    RECORD = "Record"


@dataclass(frozen=True, slots=True)
class PortType:
    """The type of the values of a port."""

    kind: PortKind
    dtype: str = ""
    """Empty: any."""
    shape: tuple[int | None, ...] | None = None
    """None: any rank; None in it: any size."""

    def __str__(self) -> str:
        if not self.dtype or self.kind is not PortKind.TENSOR:
            return str(self.kind)
        if self.shape is None:
            return f"Tensor({self.dtype})"
        return f"Tensor({self.dtype}, {'x'.join('?' if size is None else str(size) for size in self.shape)})"

    def objection(self, value: Any) -> str:
        """Return why a value is not of this type; empty: it is."""
        if self.kind is PortKind.ANY:
            return "" if isinstance(value, dict | np.ndarray) else f"a {type(value).__name__}"
        if self.kind is PortKind.RECORD:
            return "" if isinstance(value, dict) else _describe(value)
        if not isinstance(value, np.ndarray):
            return _describe(value)
        if self.kind is PortKind.IMAGE:
            fits = value.dtype == np.uint8 and value.ndim == 3 and value.shape[2] in (1, 3)
        else:
            fits = (not self.dtype or value.dtype == np.dtype(self.dtype)) and self._has_shape(value.shape)
        return "" if fits else _describe(value)

    def accepts(self, other: "PortType") -> bool:
        """Return whether values of another type can be of this one, as far as the types say."""
        if PortKind.ANY in (self.kind, other.kind):
            return True
        if PortKind.RECORD in (self.kind, other.kind):
            return self.kind is other.kind
        mine, theirs = _as_tensor(self), _as_tensor(other)
        if mine.dtype and theirs.dtype and np.dtype(mine.dtype) != np.dtype(theirs.dtype):
            return False
        if mine.shape is None or theirs.shape is None:
            return True
        sizes = zip(mine.shape, theirs.shape, strict=False)
        return len(mine.shape) == len(theirs.shape) and all(
            a is None or b is None or a == b for a, b in sizes
        )

    def _has_shape(self, shape: tuple[int, ...]) -> bool:
        if self.shape is None:
            return True
        sizes = zip(self.shape, shape, strict=False)
        return len(self.shape) == len(shape) and all(want is None or want == size for want, size in sizes)


ANY: Final = PortType(PortKind.ANY)
Image: Final = PortType(PortKind.IMAGE)
"""An array of uint8 with the shape (height, width, 3) or (height, width, 1)."""
Record: Final = PortType(PortKind.RECORD)
"""A dictionary that JSON can carry."""


def tensor(dtype: str = "", shape: tuple[int | None, ...] | None = None) -> PortType:
    """Return the type of arrays with a dtype and a shape; None in the shape: any size."""
    return PortType(PortKind.TENSOR, np.dtype(dtype).name if dtype else "", shape)


def parse_port(text: str) -> PortType:
    """Return the type that a text names; ValueError with the way to write one."""
    bare = text.strip()
    for port in (ANY, Image, Record, tensor()):
        if bare == port.kind:
            return port
    match = _TENSOR.fullmatch(bare)
    if match is None:
        raise ValueError(f"{text[:80]!r} is not a type of port; write {_EXAMPLES}")
    try:
        np.dtype(match[1])
    except TypeError:
        raise ValueError(f"{match[1]!r} is not a dtype; write for example float32 or uint8") from None
    sizes = match[2].split("x") if match[2] else None
    shape = None if sizes is None else tuple(None if size == "?" else int(size) for size in sizes)
    return tensor(match[1], shape)


def _as_tensor(port: PortType) -> PortType:
    return tensor("uint8", (None, None, None)) if port.kind is PortKind.IMAGE else port


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with the shape {'x'.join(map(str, value.shape)) or '()'}"
    return f"a {type(value).__name__}"
