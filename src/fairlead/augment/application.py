"""The application of a session: a job of this machine, with its share from the ledger."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.augment.place import LocalSession, SessionPlace
from fairlead.errors import SessionError

_SECONDS: Final = 60.0


def submit_application(place: SessionPlace, session: LocalSession, environ: Mapping[str, str]) -> str:
    """Queue the application, and return the id of its job; it starts when its share is free."""
    spec = session.spec
    own = {
        "FAIRLEAD_DATA": place.data,
        "FAIRLEAD_STORE": session.url,
        "FAIRLEAD_SESSION": place.folder,
        "FAIRLEAD_AUGMENTATION": spec.name,
        "FAIRLEAD_AUGMENTATION_DEVICE": spec.device,
    }
    words = ["submit", "-q", "--name", f"augment-{spec.name}"]
    if spec.accelerator_memory is not None:
        words += ["--gpu-mem", str(spec.accelerator_memory)]
    output = _run([*words, "--", *spec.command], {**environ, **own, **spec.env}, session.folder)
    return output.strip().splitlines()[-1]


def job_document(job: str, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return a job as `fairlead ps` shows it; None: it is not known any more."""
    jobs = json.loads(_run(["ps", "-a", "-o", "json"], environ)).get("jobs", [])
    return next((dict(each) for each in jobs if each.get("id") == job), None)


def cancel_application(job: str, environ: Mapping[str, str]) -> None:
    """End the application, if it still waits or runs."""
    document = job_document(job, environ)
    if document is not None and document.get("state") in ("queued", "starting", "running"):
        _run(["cancel", job], environ)


def _run(words: Sequence[str], environ: Mapping[str, str], folder: str = "") -> str:
    try:
        done = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-m", "fairlead", *words],
            env=dict(environ),
            cwd=folder or os.getcwd(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SessionError(f"fairlead {words[0]}: {error}") from None
    if done.returncode:
        lines = (done.stderr.strip() or "no reason is given").splitlines()
        raise SessionError(
            f"the application: {lines[0].removeprefix('fairlead: ')}", " ".join(lines[1:]).strip()
        )
    return done.stdout
