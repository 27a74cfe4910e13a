"""Bind every open dimension of a model's inputs to a size; none is guessed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod

from fairlead.analyze import bounds, dtypes
from fairlead.analyze.graph import Dims, Graph, Value
from fairlead.analyze.names import printable
from fairlead.errors import AnalysisError
from fairlead.units import pluralize

_EXAMPLE = "write it like input=1x3x224x224, or batch=1 for a dimension of that name"


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Parse the shapes that the user binds: `input=1x3x224x224`, `batch=1`."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        parts = sizes.replace(",", "x").split("x")
        if not equals or not name or not all(part.isascii() and part.isdigit() for part in parts):
            raise AnalysisError(f"{text!r} is not a shape", _EXAMPLE)
        dims = tuple(int(part) for part in parts if len(part) < 16)
        if len(dims) != len(parts) or len(dims) > bounds.RANK or prod(dims) > bounds.ELEMENTS:
            raise AnalysisError(f"{text!r} is larger than any machine", _EXAMPLE)
        shapes[name] = dims
    return shapes


@dataclass(frozen=True, slots=True)
class BoundDimensions:
    """The sizes of a model's open dimensions."""

    sizes: Mapping[str, int]
    """By the name of the dimension in the file."""
    inputs: Mapping[str, Dims | None]
    """Each input's dims; None for an input that is not a tensor."""

    def bound_dims(self, value: Value) -> Dims | None:
        """Return a value's dims with names replaced by sizes; None for dimensions that stay open."""
        if value.dims is None:
            return None
        return tuple(self.sizes.get(dim) if isinstance(dim, str) else dim for dim in value.dims)


def bind(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> BoundDimensions:
    """Return the size of every open dimension of the inputs; raise an error that names an unbound one."""
    sizes: dict[str, int] = {}
    whole: dict[str, tuple[int, ...]] = {}
    names = _dimension_names(graph)
    for name, dims in shapes.items():
        value = graph.inputs.get(name)
        if value is not None and (name not in names or len(dims) == len(value.dims or dims)):
            _bind_input(name, value, dims, sizes)
            whole[name] = dims
        elif name in names and len(dims) == 1:
            _bind_dimension(sizes, name, dims[0])
        else:
            raise _unknown_name_error(graph, name, names)
    bound = BoundDimensions(sizes, {})
    inputs = {name: whole.get(name) or bound.bound_dims(value) for name, value in graph.inputs.items()}
    missing = {name: value for name, value in graph.inputs.items() if _is_open(value, inputs[name])}
    if missing:
        raise _open_input_error(missing, sizes)
    return BoundDimensions(sizes, inputs)


def _is_open(value: Value, dims: Dims | None) -> bool:
    """Say whether an input still lacks a size; a sequence or a map has no sizes."""
    return value.dtype != dtypes.UNKNOWN and (dims is None or None in dims)


def _dimension_names(graph: Graph) -> set[str]:
    values = (*graph.inputs.values(), *graph.values.values())
    return {dim for value in values for dim in value.dims or () if isinstance(dim, str)}


def _bind_input(name: str, value: Value, dims: tuple[int, ...], sizes: dict[str, int]) -> None:
    if value.dims is None:
        return
    fixed = [dim for dim in value.dims if isinstance(dim, int)]
    fits = len(dims) == len(value.dims) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(value.dims, dims, strict=True)
    )
    if not fits:
        what = "is fixed at" if len(fixed) == len(value.dims) else "has the shape"
        raise AnalysisError(
            f"input {printable(name)!r} {what} {_format_dims(value.dims)}: it cannot be {_format_dims(dims)}",
            "bind only open dimensions; to change a fixed one, export the model again",
        )
    for dim, size in zip(value.dims, dims, strict=True):
        if isinstance(dim, str):
            _bind_dimension(sizes, dim, size)


def _bind_dimension(sizes: dict[str, int], name: str, size: int) -> None:
    if sizes.setdefault(name, size) != size:
        raise AnalysisError(
            f"dimension {printable(name)!r} cannot be {sizes[name]} and {size} at once",
            "bind each dimension once",
        )


def _format_dims(dims: Iterable[int | str | None]) -> str:
    return " x ".join("?" if dim is None else printable(str(dim)) for dim in dims) or "a single number"


def _open_input_error(missing: Mapping[str, Value], sizes: Mapping[str, int]) -> AnalysisError:
    name, value = next(iter(missing.items()))
    dims = value.dims or ()
    names = list(dict.fromkeys(dim for dim in dims if isinstance(dim, str) and dim not in sizes))
    if value.dims is None:
        what = "has no shape"
    elif names:
        what = f"leaves open: {', '.join(printable(dim) for dim in names[:6])}"
    else:
        what = "leaves a dimension open that has no name"
    where = f" ({_format_dims(dims)})" if dims else ""
    others = pluralize(len(missing) - 1, "more input does", "more inputs do")
    more = f", and {others}" if len(missing) > 1 else ""
    if names and None not in dims:
        options = (f"--shape {printable(dim)}={1 if dim == dims[0] else 'N'}" for dim in names[:6])
        hint = " ".join(options)
    else:
        sized = [str(dim) if isinstance(dim, int) else "N" for dim in dims] or ["1", "N"]
        sized[0] = "1" if sized[0] == "N" else sized[0]
        hint = f"--shape {printable(name)}={'x'.join(sized)}"
    return AnalysisError(f"input {printable(name)!r} {what}{where}{more}", f"bind it: {hint}")


def _unknown_name_error(graph: Graph, name: str, names: set[str]) -> AnalysisError:
    candidates = [*graph.inputs, *sorted(names)]
    if name in graph.inputs or name in names:
        return AnalysisError(f"{printable(name)!r} does not have that many dimensions", _EXAMPLE)
    close = get_close_matches(name, candidates[:1000], 3, 0.5)
    hint = f"did you mean {', '.join(map(printable, close))}?" if close else ""
    known = ", ".join(printable(item) for item in candidates[:12]) or "none"
    return AnalysisError(f"no input or dimension {printable(name)!r}", hint or f"there are: {known}")
