"""Kubernetes' named formats: `format.dns1123Label().validate(name)`."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Final

from fairlead.cel.errors import EvaluationError
from fairlead.cel.evaluate.values import NONE, Optional
from fairlead.cel.functions.network import parse_url
from fairlead.cel.functions.table import Overload, overload
from fairlead.cel.functions.times import parse_timestamp

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_WORDS: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{_LABEL}')"
)
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_OLD_LABEL: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_OLD_LABEL_WORDS: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    f"validation is '{_OLD_LABEL}')"
)
_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = rf"({_NAME})?"
_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_LONGEST: Final = 4096
"""The most characters that are checked: no format allows so long a string."""
Faults = list[str]


@dataclass(frozen=True, slots=True)
class Format:
    """A format with a name."""

    name: str
    check: Callable[[str], Faults]
    weight: int
    """The length of the pattern, as costs count it."""
    kind_name: ClassVar[str] = "kubernetes.NamedFormat"


def _pattern(pattern: str, words: str, longest: int, prefix: bool = False) -> Callable[[str], Faults]:
    test = re.compile(pattern)

    def check(text: str) -> Faults:
        text = text[:-1] + "a" if prefix and len(text) > 1 and text.endswith("-") else text
        faults = [f"must be no more than {longest} bytes"] if len(text) > longest else []
        return faults if test.fullmatch(text) else [*faults, words]

    return check


def _qualified(text: str) -> Faults:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix or (slash and not prefix) or not name:
        return ["a valid qualified name must consist of a name with an optional DNS subdomain prefix and '/'"]
    faults = ["prefix part " + fault for fault in _FORMATS["dns1123Subdomain"].check(prefix)] if slash else []
    words = "name part must consist of alphanumeric characters, '-', '_' or '.'"
    return faults + _pattern(_NAME, words, 63)(name)


def _uri(text: str) -> Faults:
    try:
        parse_url(text)
    except EvaluationError as error:
        return [str(error)]
    return []


def _date(text: str) -> Faults:
    try:
        date.fromisoformat(text if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else "")
    except ValueError:
        return ["invalid date"]
    return []


def _datetime(text: str) -> Faults:
    try:
        parse_timestamp(text.upper().replace(" ", "T", 1))
    except EvaluationError:
        return ["invalid datetime"]
    return []


_LABEL_VALUE_WORDS: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character"
)
_FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", _pattern(_LABEL, _LABEL_WORDS, 63), 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _pattern(_SUBDOMAIN, _SUBDOMAIN_WORDS, 253), 60),
    "dns1035Label": Format("DNS1035Label", _pattern(_OLD_LABEL, _OLD_LABEL_WORDS, 63), 30),
    "qualifiedName": Format("QualifiedName", _qualified, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _pattern(_LABEL, _LABEL_WORDS, 63, prefix=True), 30),
    "dns1123SubdomainPrefix": Format(
        "DNS1123SubdomainPrefix", _pattern(_SUBDOMAIN, _SUBDOMAIN_WORDS, 253, prefix=True), 60
    ),
    "dns1035LabelPrefix": Format(
        "DNS1035LabelPrefix", _pattern(_OLD_LABEL, _OLD_LABEL_WORDS, 63, prefix=True), 30
    ),
    "labelValue": Format("LabelValue", _pattern(_VALUE, _LABEL_VALUE_WORDS, 63), 40),
    "uri": Format("URI", _uri, 1000),
    "uuid": Format(
        "uuid", lambda text: [] if _UUID.fullmatch(text) else ["does not match the UUID format"], 60
    ),
    "byte": Format("byte", lambda text: [] if _BASE64.fullmatch(text) else ["invalid base64"], 84),
    "date": Format("date", _date, 107),
    "datetime": Format("datetime", _datetime, 107),
}


def _validate(format_: Format, text: str) -> Optional:
    faults = format_.check(text[:_LONGEST])
    return Optional(tuple(faults), has_value=True) if faults else NONE


def _named(name: str) -> Optional:
    return Optional(_FORMATS[name], has_value=True) if name in _FORMATS else NONE


def _cost(format_: Any, text: str) -> int:
    return int(-(-(1 + len(text)) // 10) * -(-format_.weight // 4))


def _constant(format_: Format) -> Callable[[], Format]:
    return lambda: format_


OVERLOADS: Final[list[Overload]] = [
    *(overload(f"format.{name}() format", _constant(format_)) for name, format_ in _FORMATS.items()),
    overload("format.named(string) optional(format)", _named),
    overload(".format.validate(string) optional(list(string))", _validate, _cost),
]
