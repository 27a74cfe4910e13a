"""Splits an expression into tokens, by the grammar of CEL."""

import re
from dataclasses import dataclass
from typing import Final

from fairlead.cel.errors import CompileError

_STRING: Final = (
    r'[rR]?"""(?:[^\\]|\\.)*?"""|' + r"[rR]?'''(?:[^\\]|\\.)*?'''|"
    r'[rR]"[^"\n\r]*"|' + r"[rR]'[^'\n\r]*'|" + r'"(?:[^"\\\n\r]|\\.)*"|' + r"'(?:[^'\\\n\r]|\\.)*'"
)
_RAW_TRIPLE: Final = r'[rR]""".*?"""|' + r"[rR]'''.*?'''"
_TOKEN: Final = re.compile(
    rf"""(?P<space>[\t \r\n\f]+|//[^\n]*)
    |(?P<bytes>[bB](?:{_RAW_TRIPLE}|{_STRING}))
    |(?P<string>{_RAW_TRIPLE}|{_STRING})
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<escaped>`[a-zA-Z0-9_.\-/ ]+`)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<op>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])""".replace("\n    ", ""),
    re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_PLAIN: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_MOST_UNICODE: Final = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Token:
    """A token of an expression."""

    kind: str
    """`bytes`, `string`, `float`, `uint`, `int`, `name`, `op` or `end`."""
    text: str
    at: int


class Source:
    """The text of an expression, with lines and columns for errors."""

    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, at: int, message: str) -> CompileError:
        """Return an error at an offset."""
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        return CompileError(line, column, message)


def tokens(source: Source) -> tuple[list[Token], CompileError | None]:
    """Return the tokens, ended by one of kind `end`, and the first fault; invalid characters are left out.

    A fault that the parser finds at an earlier place comes first.
    """
    tokens_: list[Token] = []
    fault: CompileError | None = None
    at = 0
    while at < len(source.text):
        match = _TOKEN.match(source.text, at)
        if match is None:
            letter = source.text[at]
            fault = fault or source.error(at, f"Syntax error: token recognition error at: {letter!r}")
            line_end = source.text.find("\n", at)
            # After an open quote, the rest of the line is skipped.
            at = at + 1 if letter not in "\"'" else line_end if line_end >= 0 else len(source.text)
            continue
        if match.lastgroup != "space":
            tokens_.append(Token(match.lastgroup or "", match[0], at))
        at = match.end()
    tokens_.append(Token("end", "<EOF>", len(source.text)))
    return tokens_, fault


def text_of(source: Source, token: Token) -> str:
    """Return the value of a string literal."""
    raw, body = _body(token.text)
    return body if raw else _unescaped(source, token, body, for_bytes=False)


def bytes_of(source: Source, token: Token) -> bytes:
    """Return the value of a bytes literal: its numeric escapes are bytes, the rest is UTF-8."""
    raw, body = _body(token.text[1:])
    if raw:
        return body.encode("utf-8", "surrogatepass")
    # Escaped bytes travel as lone surrogates, which no literal can hold otherwise.
    return _unescaped(source, token, body, for_bytes=True).encode("utf-8", "surrogateescape")


def _body(text: str) -> tuple[bool, str]:
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    width = 3 if text.startswith(('"""', "'''")) and len(text) >= 6 else 1
    return raw, text[width:-width].replace("\r\n", "\n").replace("\r", "\n")


def _unescaped(source: Source, token: Token, body: str, *, for_bytes: bool) -> str:
    def plain(match: re.Match[str]) -> str:
        hexadecimal, short, long, octal, simple = match.groups()
        if simple is not None:
            if simple not in _PLAIN:
                raise source.error(token.at, "Syntax error: unable to unescape string")
            return _PLAIN[simple]
        if for_bytes and (short or long):
            raise source.error(token.at, "Syntax error: unable to unescape string")
        code = int(hexadecimal or short or long, 16) if octal is None else int(octal, 8)
        if code > _MOST_UNICODE or 0xD800 <= code < 0xE000:
            raise source.error(token.at, "Syntax error: unable to unescape string")
        return chr(0xDC00 + code) if for_bytes and code > 127 else chr(code)

    return _ESCAPE.sub(plain, body)
