"""Reads an expression into a tree, as cel-go's parser does."""

from typing import Final

from fairlead.cel.errors import CompileError
from fairlead.cel.syntax.lexer import Source, Token, bytes_of, text_of, tokens
from fairlead.cel.syntax.macros import expand
from fairlead.cel.syntax.tree import Call, Ident, ListNode, Literal, MapNode, Node, Select, StructNode, UInt

_LEVELS: Final = (
    {"==": "_==_", "!=": "_!=_", "<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "in": "@in"},
    {"+": "_+_", "-": "_-_"},
    {"*": "_*_", "/": "_/_", "%": "_%_"},
)
"""Operators by precedence, the lowest first."""
_CONSTANTS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_RESERVED: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"),
        *("namespace", "package", "return", "var", "void", "while"),
    )
)
_DEEPEST: Final = 100
"""The deepest nesting of brackets; Kubernetes takes 250, and people write fewer than ten."""
_LONGEST_CHAIN: Final = 250
"""The most operators of one precedence, or fields and calls, in a row, as in cel-go."""
_INT_MIN, _INT_MAX, _UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


def parse(source: Source) -> Node:
    """Return the tree of an expression; CompileError for an invalid one."""
    return _Parser(source).whole()


class _Parser:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._tokens, self._fault = tokens(source)
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        try:
            tree = self._expression()
            if self._peek().kind != "end":
                raise self._unexpected(self._peek(), "<EOF>")
        except CompileError as error:
            if self._fault is None or (error.line, error.column) < (self._fault.line, self._fault.column):
                raise
        if self._fault is not None:
            raise self._fault
        return tree

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _is(self, *texts: str) -> bool:
        token = self._peek()
        return token.kind == "op" and token.text in texts

    def _skip(self, text: str) -> Token | None:
        return self._take() if self._is(text) else None

    def _expect(self, text: str) -> Token:
        if not self._is(text):
            raise self._unexpected(self._peek(), f"'{text}'")
        return self._take()

    def _unexpected(self, token: Token, wanted: str = "") -> CompileError:
        expecting = f" expecting {wanted}" if wanted else ""
        return self._source.error(token.at, f"Syntax error: mismatched input '{token.text}'{expecting}")

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._source.error(0, f"expression recursion limit exceeded: {_DEEPEST}")
        node = self._joined("||", "_||_")
        if token := self._skip("?"):
            then = self._joined("||", "_||_")
            self._expect(":")
            node = Call(token.at, "_?_:_", None, [node, then, self._expression()])
        self._depth -= 1
        return node

    def _joined(self, text: str, function: str) -> Node:
        """Return the operands of `&&` or `||` as one call with any number of arguments."""
        parts: list[Node] = [self._joined("&&", "_&&_") if text == "||" else self._binary(0)]
        at = -1
        while token := self._skip(text):
            at = token.at if at < 0 else at
            parts.append(self._joined("&&", "_&&_") if text == "||" else self._binary(0))
        return parts[0] if at < 0 else Call(at, function, None, parts)

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        node = self._binary(level + 1)
        names = _LEVELS[level]
        for _ in range(_LONGEST_CHAIN):
            token = self._peek()
            if token.kind not in ("op", "name") or token.text not in names:
                return node
            self._take()
            node = Call(token.at, names[token.text], None, [node, self._binary(level + 1)])
        raise self._source.error(0, f"expression recursion limit exceeded: {_LONGEST_CHAIN}")

    def _unary(self) -> Node:
        token = self._peek()
        if not self._is("!", "-"):
            return self._member()
        sign, count = token.text, 0
        while self._is(sign):
            # One minus belongs to a number; of several, none does.
            if sign == "-" and not count and self._tokens[self._next + 1].kind in ("int", "float"):
                break
            count += 1
            self._take()
        operand = self._member()
        return Call(token.at, f"{sign}_", None, [operand]) if count % 2 else operand

    def _member(self) -> Node:
        node = self._primary()
        for _ in range(_LONGEST_CHAIN):
            if dot := self._skip("."):
                node = self._field(node, dot)
            elif bracket := self._skip("["):
                function = "_[?_]" if self._skip("?") else "_[_]"
                node = Call(bracket.at, function, None, [node, self._expression()])
                self._expect("]")
            else:
                return node
        raise self._source.error(0, f"expression recursion limit exceeded: {_LONGEST_CHAIN}")

    def _field(self, operand: Node, dot: Token) -> Node:
        optional = self._skip("?")
        name = self._name(selector=True)
        if optional:
            return Call(dot.at, "_?._", None, [operand, Literal(name.at, name.text)])
        if opening := self._skip("("):
            args = self._arguments(")")
            return expand(self._source, Call(opening.at, name.text, operand, args))
        return Select(dot.at, operand, name.text)

    def _name(self, *, selector: bool = False) -> Token:
        token = self._peek()
        if selector and token.kind == "escaped":
            self._take()
            return Token("name", token.text[1:-1], token.at)
        if token.kind != "name" or token.text in _CONSTANTS or token.text == "in":
            raise self._unexpected(token, "IDENTIFIER")
        if not selector and token.text in _RESERVED:
            raise self._source.error(token.at, f"reserved identifier: {token.text}")
        return self._take()

    def _arguments(self, closing: str) -> list[Node]:
        arguments: list[Node] = []
        while not self._is(closing):
            arguments.append(self._expression())
            if not self._skip(","):
                break
            if closing == ")" and self._is(closing):
                raise self._unexpected(self._peek())
        self._expect(closing)
        return arguments

    def _primary(self) -> Node:
        token = self._peek()
        if token.kind == "op":
            return self._bracketed(token)
        if token.kind == "name" and token.text not in _CONSTANTS:
            return self._name_or_call("")
        self._take()
        return self._literal(token)

    def _bracketed(self, token: Token) -> Node:
        if self._skip("("):
            node = self._expression()
            self._expect(")")
            return node
        if self._skip("["):
            return self._list(token)
        if self._skip("{"):
            return self._map(token)
        if self._skip("."):
            return self._name_or_call(".")
        if self._skip("-"):
            return self._literal(self._take(), negative=token)
        raise self._unexpected(token)

    def _name_or_call(self, dot: str) -> Node:
        name = self._name(selector=bool(dot))
        if opening := self._skip("("):
            call = Call(opening.at, name.text, None, self._arguments(")"))
            return expand(self._source, call)
        struct = self._struct(dot + name.text)
        return struct or Ident(name.at, dot + name.text)

    def _struct(self, name: str) -> StructNode | None:
        """Return a message literal, where the names that follow end in a brace."""
        at = self._next
        while self._tokens[at].text == "." and self._tokens[at + 1].kind == "name":
            at += 2
        if self._tokens[at].kind != "op" or self._tokens[at].text != "{":
            return None
        full = name + "".join(token.text for token in self._tokens[self._next : at])
        self._next = at + 1
        fields: list[tuple[int, str, Node, bool]] = []
        while not self._is("}"):
            optional = bool(self._skip("?"))
            field = self._name(selector=True)
            colon = self._expect(":")
            fields.append((colon.at, field.text, self._expression(), optional))
            if not self._skip(","):
                break
        self._expect("}")
        return StructNode(self._tokens[at].at, full, fields)

    def _list(self, opening: Token) -> ListNode:
        items: list[Node] = []
        optional: set[int] = set()
        while not self._is("]"):
            if self._skip("?"):
                optional.add(len(items))
            items.append(self._expression())
            if not self._skip(","):
                break
        self._expect("]")
        return ListNode(opening.at, items, frozenset(optional))

    def _map(self, opening: Token) -> MapNode:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._is("}"):
            optional = bool(self._skip("?"))
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), optional))
            if not self._skip(","):
                break
        self._expect("}")
        return MapNode(opening.at, entries)

    def _literal(self, token: Token, negative: Token | None = None) -> Literal:
        at = token.at if negative is None else negative.at
        match token.kind:
            case "int":
                return Literal(at, self._integer(token, negative is not None))
            case "uint":
                value = int(token.text[:-1], 16 if token.text.startswith("0x") else 10)
                if value > _UINT_MAX:
                    raise self._source.error(at, "invalid uint literal")
                return Literal(at, UInt(value))
            case "float":
                return Literal(at, float(token.text) * (-1 if negative else 1))
            case "string":
                return Literal(at, text_of(self._source, token))
            case "bytes":
                return Literal(at, bytes_of(self._source, token))
        if token.text in _CONSTANTS:
            return Literal(at, _CONSTANTS[token.text])
        raise self._unexpected(token)

    def _integer(self, token: Token, negative: bool) -> int:
        value = int(token.text, 16 if token.text.startswith("0x") else 10)
        value = -value if negative else value
        if not _INT_MIN <= value <= _INT_MAX:
            raise self._source.error(token.at, "invalid int literal")
        return value
