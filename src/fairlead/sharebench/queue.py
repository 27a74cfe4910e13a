"""LocalQueue: engines as jobs of fairlead's own queue, by the commands that people type."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, TypeAlias

from fairlead.errors import UserError
from fairlead.ledger import JobLedger, StateDirectory
from fairlead.sharebench.outcome import EngineOutcome
from fairlead.sharebench.workload import ServingEngine

Submission: TypeAlias = tuple[ServingEngine, Sequence[str], Sequence[str]]
"""An engine, the options of its job, and its command."""
LIVE: Final = frozenset({"queued", "running"})
_POLL: Final = 0.2
"""Seconds between two looks at the engines; the times of jobs come from their records."""
_SELDOM: Final = 30.0
"""Seconds between two commands while engines run: each one starts a supervisor that was killed."""
_TRIES: Final = 3
_PATIENCE: Final = 120.0
"""Seconds for one command."""


class LocalQueue:
    """A queue with a state directory of its own: nothing of the user's jobs and history is in it."""

    def __init__(self, folder: str, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self._variables = variables
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")},
            **variables,
            "FAIRLEAD_STATE": os.path.join(folder, "state"),
        }
        os.makedirs(folder, exist_ok=True)

    def copy(self, folder: str) -> "LocalQueue":
        """Return another queue that knows what this one has learned."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return LocalQueue(folder, self._variables)

    def submit(self, engines: Sequence[Submission]) -> list[EngineOutcome]:
        """Submit engines at once."""
        lines = [
            shlex.join([*options, "--name", engine.name]) + " -- exec " + shlex.join(words)
            for engine, options, words in engines
        ]
        now = time.time()
        ids = self._fairlead("submit", "--from", "-", text="\n".join(lines) + "\n").split()
        return [EngineOutcome(engine, now, job=job) for (engine, *_), job in zip(engines, ids, strict=True)]

    def wait(self, outcomes: Sequence[EngineOutcome], seconds: float) -> list[EngineOutcome]:
        """Return what became of jobs; those that have not ended after this time are cancelled.

        While engines run, their records are read here: each command would take a core from them.
        """
        end = time.monotonic() + seconds
        ids = {outcome.job for outcome in outcomes}
        ledger = JobLedger(StateDirectory.open(self._environ))
        while True:
            ask_at = min(end, time.monotonic() + _SELDOM)
            while _is_any_live(ledger, ids) and time.monotonic() < ask_at:
                time.sleep(_POLL)
            jobs = {job["id"]: job for job in self.jobs() if job["id"] in ids}
            if len(jobs) == len(ids) and not any(job["state"] in LIVE for job in jobs.values()):
                return [_outcome(outcome, jobs[outcome.job]) for outcome in outcomes]
            if time.monotonic() >= end:
                self.close()
                return [_outcome(outcome, jobs.get(outcome.job, {})) for outcome in outcomes]
            time.sleep(_POLL)

    def jobs(self) -> list[dict[str, Any]]:
        """Return all jobs, as `fairlead ps -a -o json` lists them; one failure must not end a long run."""
        for _ in range(_TRIES - 1):
            with suppress(UserError, subprocess.TimeoutExpired):
                return self._listed()
            time.sleep(_POLL)
        return self._listed()

    def _listed(self) -> list[dict[str, Any]]:
        return list(json.loads(self._fairlead("ps", "-a", "-o", "json"))["jobs"])

    def close(self) -> None:
        """Cancel what has not ended."""
        if any(job["state"] in LIVE for job in self.jobs()):
            self._fairlead("cancel", "--all")

    def _fairlead(self, *words: str, text: str = "") -> str:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "fairlead", *words],
            input=text, env=self._environ, capture_output=True, text=True, timeout=_PATIENCE, check=False,
        )  # fmt: skip
        if done.returncode:
            raise UserError(f"fairlead {words[0]} failed: {done.stderr.strip()[-500:]}")
        return done.stdout


def _is_any_live(ledger: JobLedger, ids: Set[str]) -> bool:
    """Return whether a job waits or runs by its record, which is removed once the job is archived."""
    return any(job.id in ids and job.state in LIVE for job in ledger.own_jobs())


def _outcome(outcome: EngineOutcome, job: Mapping[str, Any]) -> EngineOutcome:
    ended = job.get("state") not in (*LIVE, None)
    return EngineOutcome(
        outcome.engine,
        _time(job.get("submitted_at")) or outcome.submitted,
        _time(job.get("started_at")),
        _time(job.get("ended_at")) if ended else None,
        job.get("exit_code") if ended else None,
        job.get("reason", "") if ended else "it did not end in time",
        outcome.job,
    )


def _time(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
