"""The types of values at run time."""

from typing import Any, Final

from fairlead.cel.check.types import Type
from fairlead.cel.evaluate.values import Map, Optional, kind_name

_SIMPLE: Final = {
    "null": "null_type", "duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp",
}  # fmt: skip
_GO: Final = {
    "bool": "types.Bool", "int": "types.Int", "uint": "types.Uint", "double": "types.Double",
    "string": "types.String", "bytes": "types.Bytes", "null_type": "types.Null",
    "optional_type": "*types.Optional",
}  # fmt: skip


def accepts(parameter: Type, value: Any) -> bool:
    """Return whether a parameter of this type takes a value; of a list, the first element decides."""
    match parameter.kind:
        case "dyn" | "param":
            return True
        case "list":
            return type(value) is tuple and (not value or accepts(parameter.params[0], value[0]))
        case "map":
            return type(value) is Map
        case "opaque":
            return type(value) is Optional
        case "struct":
            return kind_name(value) == parameter.name
    return kind_name(value) == _SIMPLE.get(parameter.kind, parameter.kind)


def go_name(value: Any) -> str:
    """Return the Go name of a value's type, as cel-go's messages have it."""
    return _GO.get(kind_name(value), kind_name(value))
