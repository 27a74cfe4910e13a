"""SplitJobSpec: what a split job runs, on which workers, by which policy; checked when the job is made."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.splitting.chunks import ChunkRule, TimedChunks
from fairlead.splitting.peers import RULES, rule_named
from fairlead.splitting.policy.document import facts_of
from fairlead.splitting.policy.facts import OffloadFacts
from fairlead.splitting.policy.rule import OffloadRule
from fairlead.splitting.rules import SplitRules
from fairlead.store.refusal import RefusedError

KINDS: Final = ("command", "function", "model")
SITES: Final = ("device", "pod")
POLICIES: Final = ("auto", "device", "server", "split")
_MOST: Final = 64 << 10
"""Bytes of a spec."""
_WORDS: Final = 1000


@dataclass(frozen=True, slots=True)
class SplitJobSpec:
    """A split job as its user asked for it."""

    name: str
    command: tuple[str, ...]
    kind: str = "command"
    on: tuple[str, ...] = SITES
    policy: str = "auto"
    follow: bool = False
    keep_inputs: bool = False
    """Whether inputs that were uploaded for the job stay in the store when they have a result."""
    rule: str = RULES[0]
    """How inputs are handed out; others than the first are there to be compared with."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """For these rules: the names of the workers, and what each is expected to do."""
    offload: OffloadFacts = field(default_factory=lambda: facts_of({}))
    """What the policy `auto` knows before workers are measured."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """All that was stated, also what only workers read."""

    def chunks(self, rules: SplitRules) -> ChunkRule:
        """Return the rule by which inputs are handed out."""
        sites = {"device": ("device",), "server": ("pod",)}.get(self.policy, self.on)
        own = TimedChunks(rules, tuple(sites))
        if self.policy == "auto" and self.rule == RULES[0]:
            return OffloadRule(own, self.offload)
        return rule_named(self.rule, rules, self.shares, lambda: own)


def parse_spec(document: Mapping[str, Any]) -> SplitJobSpec:
    """Check a spec; RefusedError says what is wrong with it."""
    if len(json.dumps(document)) > _MOST:
        raise RefusedError(413, f"a job's spec has at most {_MOST} bytes")
    command = document.get("command")
    if not isinstance(command, list) or not 0 < len(command) <= _WORDS:
        raise RefusedError(400, "command: a job needs a command, a list of words")
    if not all(isinstance(word, str) and "\0" not in word for word in command):
        raise RefusedError(400, "command: each word is a text without zero bytes")
    on = document.get("on", list(SITES))
    if not isinstance(on, list) or not on or not all(site in SITES for site in on):
        raise RefusedError(400, f"on: a list of {', '.join(SITES)}")
    return SplitJobSpec(
        _name(document),
        tuple(command),
        _one_of(document, "kind", KINDS),
        tuple(on),
        _one_of(document, "policy", POLICIES),
        bool(document.get("follow", False)),
        bool(document.get("keep_inputs", False)),
        _one_of(document, "rule", RULES),
        _shares(document.get("shares") or {}),
        _offload(document.get("offload") or {}),
        document,
    )


def _name(document: Mapping[str, Any]) -> str:
    name = document.get("name", "")
    if not isinstance(name, str) or len(name) > 200 or not name.isprintable():
        raise RefusedError(400, "name: a printable text of at most 200 characters")
    return name


def _one_of(document: Mapping[str, Any], key: str, values: tuple[str, ...]) -> str:
    value = document.get(key, values[0])
    if value not in values:
        raise RefusedError(400, f"{key}: one of {', '.join(values)}")
    return str(value)


def _offload(value: Any) -> OffloadFacts:
    if not isinstance(value, Mapping):
        raise RefusedError(400, "offload: what is known of device, server and link, an object")
    try:
        return facts_of(value)
    except ValueError as error:
        raise RefusedError(400, f"offload: {error}") from None


def _shares(value: Any) -> dict[str, float]:
    if not isinstance(value, dict) or not all(isinstance(each, int | float) for each in value.values()):
        raise RefusedError(400, "shares: a number for each worker")
    if any(not 0 <= each < 1e12 for each in value.values()):
        raise RefusedError(400, "shares: numbers of 0 or more")
    return {str(name): float(each) for name, each in value.items()}
