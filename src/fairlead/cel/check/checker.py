"""Finds the type of every part of an expression, and rejects what cannot be evaluated, as cel-go does."""

from collections.abc import Sequence
from typing import Final

from fairlead.cel.check.types import (
    BOOL,
    BYTES,
    DEVICE,
    DOUBLE,
    DURATION,
    DYN,
    ERROR,
    INT,
    NULL,
    QUANTITY,
    STRING,
    TIMESTAMP,
    UINT,
    Bindings,
    Type,
    list_of,
    map_of,
    most_general,
    optional_of,
    type_of,
    unwrapped,
)
from fairlead.cel.errors import CompileError
from fairlead.cel.functions.table import FunctionTable, Overload
from fairlead.cel.syntax.lexer import Source
from fairlead.cel.syntax.tree import (
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    StructNode,
    UInt,
)

_LITERALS: Final[dict[type, Type]] = {
    bool: BOOL, int: INT, UInt: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL,
}  # fmt: skip
FIELDS: Final = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": map_of(STRING, map_of(STRING, DYN)),
    "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
}
"""The fields of a device, and their types."""
TYPE_NAMES: Final = {
    "bool": BOOL, "int": INT, "uint": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES, "dyn": DYN,
    "null_type": NULL, "list": list_of(DYN), "map": map_of(DYN, DYN), "type": Type("type"),
    "google.protobuf.Timestamp": TIMESTAMP, "google.protobuf.Duration": DURATION,
    "optional_type": optional_of(DYN),
}  # fmt: skip
"""Names that stand for types."""


def qualified(node: Node) -> str:
    """Return `a.b.c` of names and fields; empty for anything else."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test:
        names.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(names)]).lstrip(".") if isinstance(node, Ident) else ""


class Checker:
    """The types of one expression."""

    def __init__(self, source: Source, table: FunctionTable) -> None:
        self.faults: list[CompileError] = []
        self.overloads: dict[int, list[Overload]] = {}
        """By the id of a call: the overloads that its types allow."""
        self.names: dict[int, str] = {}
        """By the id of a node: the full name of the type or function that the node stands for."""
        self._source = source
        self._table = table
        self._types: dict[int, Type] = {}
        self._bindings = Bindings()
        self._scopes: list[dict[str, Type]] = [{"device": DEVICE}]

    def type_of(self, node: Node) -> Type:
        """Return the type of a node that was checked."""
        return self._bindings.final(self._types[id(node)], free_to_dyn=True)

    def check(self, node: Node) -> Type:
        """Return the type of a node, and record its faults."""
        if id(node) in self._types:
            # Macros use a target twice: without this cache, a chain of macros would take exponential time.
            return self._types[id(node)]
        match node:
            case Literal():
                type_ = _LITERALS[type(node.value)]
            case Ident():
                type_ = self._ident(node)
            case Select():
                type_ = self._select(node)
            case Call():
                type_ = self._call(node)
            case ListNode():
                type_ = self._list(node)
            case MapNode():
                type_ = self._map(node)
            case StructNode():
                type_ = self._struct(node)
            case Comprehension():
                type_ = self._comprehension(node)
        self._types[id(node)] = type_
        return type_

    def _fault(self, at: int, message: str) -> Type:
        self.faults.append(self._source.error(at, message))
        return ERROR

    def _mismatch(self, at: int, wanted: Type, found: Type) -> Type:
        return self._fault(at, f"expected type '{wanted}' but found '{found}'")

    def _undeclared(self, at: int, name: str) -> Type:
        return self._fault(at, f"undeclared reference to '{name}' (in container '')")

    def _ident(self, node: Ident) -> Type:
        plain = node.name.removeprefix(".")
        scopes = reversed(self._scopes) if plain == node.name else iter(self._scopes[:1])
        for scope in scopes:
            if plain in scope:
                return scope[plain]
        if plain in TYPE_NAMES:
            self.names[id(node)] = plain
            return type_of(TYPE_NAMES[plain])
        return self._undeclared(node.at, node.name)

    def _select(self, node: Select) -> Type:
        full = qualified(node)
        if "." in full and full in TYPE_NAMES:
            self.names[id(node)] = full
            return type_of(TYPE_NAMES[full])
        type_ = self._field(node.at, node.operand, node.field, optional=False)
        return BOOL if node.test else self._bindings.final(type_)

    def _field(self, at: int, operand: Node, field: str, *, optional: bool) -> Type:
        target, was_optional = unwrapped(self._bindings.final(self.check(operand)))
        match target.kind:
            case "map":
                type_ = target.params[1]
            case "struct":
                type_ = FIELDS[field] if target == DEVICE and field in FIELDS else ERROR
                if type_ is ERROR:
                    self._fault(at, f"undefined field '{field}'")
            case "param":
                self._bindings.assign((DYN,), (target,))
                type_ = DYN
            case kind:
                if kind not in ("dyn", "error"):
                    self._fault(at, f"type '{target}' does not support field selection")
                type_ = DYN
        return optional_of(type_) if optional or was_optional else type_

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, Literal)
            self._types[id(field)] = STRING
            type_ = self._field(node.at, node.args[0], str(field.value), optional=True)
            return self._bindings.final(type_)
        for argument in node.args:
            self.check(argument)
        if node.target is None:
            return self._resolve(node, node.function, node.args, member=False)
        full = qualified(node.target)
        if full and self._table.get(f"{full}.{node.function}"):
            self.names[id(node)] = f"{full}.{node.function}"
            return self._resolve(node, f"{full}.{node.function}", node.args, member=False)
        self.check(node.target)
        return self._resolve(node, node.function, [node.target, *node.args], member=True)

    def _resolve(self, node: Call, name: str, args: Sequence[Node], *, member: bool) -> Type:
        overloads = self._table.get(name.removeprefix("."))
        if not overloads:
            return self._undeclared(node.at, name)
        arg_types = tuple(self._types[id(arg)] for arg in args)
        if name in ("_&&_", "_||_"):
            return self._logical(args, arg_types)
        result_type: Type | None = None
        for overload in overloads:
            if overload.member != member:
                continue
            result, *wanted = self._bindings.instance((overload.result, *overload.args))
            if not self._bindings.assign(arg_types, tuple(wanted)):
                continue
            self.overloads.setdefault(id(node), []).append(overload)
            result = self._bindings.final(result)
            if result_type is None:
                result_type = result
            elif result_type.kind != "dyn" and result_type != result:
                result_type = DYN
        if result_type is not None:
            return result_type
        shown = [str(self._bindings.final(arg_type, free_to_dyn=True)) for arg_type in arg_types]
        signature = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
        return self._fault(node.at, f"found no matching overload for '{name}' applied to '{signature}'")

    def _logical(self, args: Sequence[Node], arg_types: Sequence[Type]) -> Type:
        sound = True
        for argument, kind in zip(args, arg_types, strict=True):
            if not self._bindings.assign((kind,), (BOOL,)):
                self._mismatch(argument.at, BOOL, self._bindings.final(kind))
                sound = False
        return BOOL if sound else ERROR

    def _list(self, node: ListNode) -> Type:
        joined: Type | None = None
        for place, item in enumerate(node.items):
            kind = self.check(item)
            if place in node.optional:
                kind = self._optional(item, kind)
            joined = self._join(joined, kind)
        return list_of(joined or self._bindings.fresh())

    def _map(self, node: MapNode) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for key, value, optional in node.entries:
            keys = self._join(keys, self.check(key))
            kind = self.check(value)
            values = self._join(values, self._optional(value, kind) if optional else kind)
        return map_of(keys or self._bindings.fresh(), values or self._bindings.fresh())

    def _optional(self, node: Node, kind: Type) -> Type:
        inner, is_optional = unwrapped(self._bindings.final(kind))
        if not is_optional and inner.kind != "dyn":
            self._mismatch(node.at, optional_of(inner), inner)
        return inner

    def _join(self, before: Type | None, now: Type) -> Type:
        if before is None:
            return now
        if self._bindings.assign((before,), (now,)):
            return most_general(before, now)
        # `validate` rejects mixed lists and maps afterwards, unless they are arguments of `format`.
        return DYN

    def _struct(self, node: StructNode) -> Type:
        for _, _, value, _ in node.fields:
            self.check(value)
        name = node.name.removeprefix(".")
        if name in TYPE_NAMES:
            return self._fault(node.at, f"'{name}' is not a message type")
        return self._undeclared(node.at, node.name)

    def _comprehension(self, node: Comprehension) -> Type:
        over = self._bindings.final(self.check(node.over))
        accumulated = self.check(node.init)
        self._scopes.append({node.accu: accumulated})
        self._scopes.append(self._variables(node, over))
        self.check(node.condition)
        self._assert(node.condition, BOOL)
        self.check(node.step)
        self._assert(node.step, accumulated)
        self._scopes.pop()
        result = self.check(node.result)
        self._scopes.pop()
        return self._bindings.final(result)

    def _variables(self, node: Comprehension, over: Type) -> dict[str, Type]:
        match over.kind:
            case "list":
                first, second = (INT, over.params[0]) if node.var2 else (over.params[0], ERROR)
            case "map":
                first, second = over.params
            case "dyn" | "error" | "param":
                self._bindings.assign((DYN,), (over,))
                first = second = DYN
            case _:
                first = second = ERROR
                self._fault(
                    node.over.at,
                    f"expression of type '{over}' cannot be range of a comprehension "
                    "(must be list, map, or dynamic)",
                )
        return {node.var: first, node.var2: second} if node.var2 else {node.var: first}

    def _assert(self, node: Node, wanted: Type) -> None:
        if not self._bindings.assign((wanted,), (self._types[id(node)],)):
            self._mismatch(node.at, self._bindings.final(wanted), self._bindings.final(self._types[id(node)]))
