"""The policy of a running tier, chosen again from its own trace."""

from collections.abc import Callable
from typing import Final

from fairlead.errors import TraceError
from fairlead.tiering.choice import choose
from fairlead.tiering.policies import DEFAULT, POLICIES
from fairlead.tiering.policies.fast_tier import TieringPolicy
from fairlead.tiering.program.recorder import TraceRecorder
from fairlead.tiering.program.settings import AUTO, TierSettings
from fairlead.tiering.replay import replay_all

_LEAST: Final = 1000
"""Accesses before a trace decides."""


class PolicyChooser:
    """Knows the policy and why; it is another one when the trace says so."""

    def __init__(self, settings: TierSettings, trace: TraceRecorder, log: Callable[[str], None]) -> None:
        self._settings = settings
        self._trace = trace
        self._log = log
        self.name = DEFAULT if settings.policy == AUTO else settings.policy
        self.why = "the default, until the trace is long enough" if settings.policy == AUTO else "as asked"
        self._seen = -1

    def policy(self) -> TieringPolicy:
        """Return a fresh policy."""
        return POLICIES[self.name](self._settings.capacity)

    def choose(self, accesses: int) -> bool:
        """Look at the trace again; return whether the policy is another one now."""
        if self._settings.policy != AUTO or self._trace.total < _LEAST or accesses == self._seen:
            return False
        self._seen = accesses
        try:
            results = replay_all(self._trace.chunks(), self._settings.capacity, self._settings.speeds)
        except TraceError as error:
            self._log(f"the trace cannot be read, and the policy stays: {error}")
            return False
        choice = choose(results)
        changed = choice.name != self.name
        self.name, self.why = choice.name, choice.why
        if changed:
            self._log(f"policy {choice.name}: {choice.why}")
        return changed
