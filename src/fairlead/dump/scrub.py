"""Remove secrets from texts, command lines and objects. Pure.

Three rules work together: a value that is known to be secret is removed wherever it stands; a text that looks
like a secret is removed; and of objects whole fields go, whatever they hold.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

REMOVED: Final = "[removed]"
_SHORTEST: Final = 6
"""Characters of a known secret that is removed from texts: a shorter one is part of ordinary words."""
_NAME: Final = (
    r"[\w.-]*(?:password|passwd|passphrase|secret|token|credential|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|auth(?:orization)?(?![a-z])|bearer|cookie|session[_-]?key|signature|dsn|connection[_-]?string)[\w.-]*"
)
_SECRET_NAME: Final = re.compile(_NAME, re.IGNORECASE)
_HARMLESS: Final = re.compile(
    r"(?i)[\w.-]*(?:secret|token|auth|key|pass)[\w.-]*(?:file|path|dir|folder|name|audiences?|expiration"
    r"|seconds|mount\w*|type|mode|count|total)"
)
"""A name that speaks of a secret and holds none: a path, a name, a figure."""
_PATTERNS: Final = tuple(
    (re.compile(pattern, flags), replacement)
    for pattern, flags, replacement in (
        (
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
            re.S,
            REMOVED,
        ),
        (r"\b(Bearer|Basic|Digest|Negotiate)\s+[\w.~+/=-]{6,}", re.I, rf"\1 {REMOVED}"),
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", 0, REMOVED),  # a JSON web token
        (r"\bfl[ia]1\.[\w-]+(?:\.[\w-]+)+", 0, REMOVED),  # an invite or an admin token of ours
        (r"\b(?:gh[opsur]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|npm_|pypi-)[\w-]{10,}", 0, REMOVED),
        (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", 0, REMOVED),
        (r"(\b[a-z][a-z0-9+.-]*://)[^\s/@'\"]+@", re.I, rf"\1{REMOVED}@"),
        (rf"(--?{_NAME})(\s+|=)(?!-)(\"[^\"]*\"|'[^']*'|[^\s,;&]+)", re.I, rf"\1\2{REMOVED}"),
        (
            rf"(\b{_NAME}\\?[\"']?\s*[=:]\s*)(?!{re.escape(REMOVED)}|Bearer |Basic )"
            r"(\\?\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&\"'}\]]+)",
            re.I,
            rf"\1{REMOVED}",
        ),
    )
)
_OF_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_WORDS: Final = ("command", "args", "argv")
_DROPPED: Final = frozenset(
    ("managedFields", "envFrom", "binaryData", "stringData", "machineID", "systemUUID", "bootID", "images")
)
"""Fields that no fault report needs, or whose values are secret by their kind."""


class Scrubber:
    """Removes secrets, some of which are known; counts what it removed."""

    def __init__(self, known: Iterable[str] = (), keep_annotations: str = "") -> None:
        """`keep_annotations` begins the names of annotations that stay; all others go."""
        self._known: list[str] = []
        self.learn(known)
        self._keep = keep_annotations
        self.removed = 0
        """How many values were removed."""

    def learn(self, known: Iterable[str]) -> None:
        """Take further values that are known to be secret."""
        values = {*self._known, *(each for each in known if len(each) >= _SHORTEST)}
        self._known = sorted(values, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        for value in self._known:
            if value in text:
                self.removed += text.count(value)
                text = text.replace(value, REMOVED)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(lambda match, new=replacement: self._replaced(match, new), text)  # type: ignore[misc]  # mypy infers no type for the bound default
        return text

    def _replaced(self, match: "re.Match[str]", replacement: str) -> str:
        if match.lastindex and _HARMLESS.search(match[1].rstrip("\"' \t=:\\")) and "://" not in match[1]:
            return match[0]
        new = match.expand(replacement)
        self.removed += new != match[0]
        return new

    def words(self, words: Sequence[str]) -> list[str]:
        """Return a command line without the values of options that name secrets."""
        result: list[str] = []
        hidden = False
        for word in words:
            if hidden:
                self.removed += 1
                result.append(REMOVED)
                hidden = False
                continue
            result.append(self.text(word))
            hidden = word.startswith("-") and "=" not in word and is_secret_name(word)
        return result

    def document(self, value: Any, name: str = "") -> Any:
        """Return a document of JSON without secrets."""
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list | tuple):
            if name in _WORDS and all(isinstance(each, str) for each in value):
                return self.words(value)
            return [self.document(each, name) for each in value]
        if isinstance(value, str):
            if value and is_secret_name(name):
                self.removed += 1
                return REMOVED
            return self.text(value)
        return value

    def _mapping(self, value: Mapping[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, item in value.items():
            if name in _DROPPED:
                continue
            if name == "annotations" and isinstance(item, Mapping):
                result[name] = self._annotations(item)
            elif name == "env" and isinstance(item, list):
                result[name] = self._environment(item)
            elif name == "data" and value.get("kind") in ("Secret", "ConfigMap", None):
                self.removed += 1
                result[name] = REMOVED
            else:
                result[name] = self.document(item, name)
        return result

    def _annotations(self, item: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: self.text(str(text)) for name, text in item.items() if name.startswith(self._keep)}
        self.removed += len(item) - len(kept) if self._keep else 0
        return kept if self._keep else {}

    def _environment(self, variables: Sequence[Any]) -> list[dict[str, str]]:
        self.removed += sum(bool(isinstance(each, Mapping) and each.get("value")) for each in variables)
        return [
            {"name": str(each.get("name", "")), "value": REMOVED}
            for each in variables
            if isinstance(each, Mapping)
        ]


def is_secret_name(name: str) -> bool:
    """Return whether a name says that its value is secret."""
    return bool(_SECRET_NAME.fullmatch(name)) and not _HARMLESS.fullmatch(name)


def environment_values(pod: Mapping[str, Any]) -> list[str]:
    """Return the values of a pod's environment variables: none of them may be in a dump."""
    spec = pod.get("spec") or {}
    containers = [each for kind in _OF_CONTAINERS for each in spec.get(kind) or ()]
    variables = [each for container in containers for each in container.get("env") or ()]
    return [str(each["value"]) for each in variables if each.get("value")]
