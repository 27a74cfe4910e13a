"""What a store says of its jobs, as documents."""

from collections.abc import Sequence
from typing import Any

from fairlead.splitting.bound import SplitBound
from fairlead.splitting.chunks import bound_of
from fairlead.splitting.items import SplitLease
from fairlead.splitting.rules import SplitRules
from fairlead.store.jobs.live import LiveJob
from fairlead.store.jobs.records import SplitJobRecord, WorkerRecord

_RULES = SplitRules()


def lease_document(job: str, lease: SplitLease) -> dict[str, Any]:
    """Return a lease as a worker receives it."""
    item = lease.input
    return {
        "input": item.id,
        "lease": lease.number,
        "path": item.path,
        "digest": item.digest,
        "size": item.size,
        "where": (item.where or f"/jobs/{job}/in/{item.path}") if item.stored else "",
        "copy": lease.copy,
    }


def job_document(
    record: SplitJobRecord,
    counts: tuple[int, int, int],
    workers: Sequence[WorkerRecord],
    live: LiveJob | None,
    now: float,
) -> dict[str, Any]:
    """Return a job as its user reads it."""
    pending, done, failed = counts
    running = live.queue.outstanding if live else 0
    bound = bound_of(live.queue.workers) if live else SplitBound(0.0, 0.0)
    spec = record.spec
    return {
        "job": record.id,
        "name": str(spec.get("name", "")),
        "spec": dict(spec),
        "state": live.state if live else record.state,
        "complete": live.queue.complete if live else record.complete,
        "created": record.created,
        "started": live.started if live else record.started,
        "last_result": record.last,
        "counts": {
            "inputs": pending + done + failed,
            "pending": max(0, pending - running),
            "running": running,
            "done": done,
            "failed": failed,
        },
        "workers": _workers(workers, live, now),
        "seconds_left": live.queue.seconds_left(now) if live else None,
        "bound": {"device": bound.device, "server": bound.server, "gain": bound.gain},
        "helps": bound.helps(_RULES),
        "decision": live.decision if live else None,
        "server_seconds_saved": _saved(workers),
    }


def _workers(records: Sequence[WorkerRecord], live: LiveJob | None, now: float) -> list[dict[str, Any]]:
    known = {each.name: each for each in records}
    states = dict(live.queue.workers) if live else {}
    documents = []
    for name in sorted({*known, *states}):
        record = known.get(name) or WorkerRecord(name, states[name].site, 0, 0, 0.0)
        document: dict[str, Any] = {
            "name": name,
            "site": record.site,
            "done": record.done,
            "failed": record.failed,
            "seconds": record.seconds,
        }
        if name in states:
            state = states[name]
            document |= {
                "slots": state.slots,
                "rate": state.rate,
                "held": len(state.held),
                "copies": state.copies,
                "seen": max(0.0, now - state.seen),
            }
        documents.append(document)
    return documents


def _saved(workers: Sequence[WorkerRecord]) -> float | None:
    """Return the seconds the server would have needed for what devices did; None: not known."""
    pods = [each for each in workers if each.site == "pod" and each.done]
    done = sum(each.done for each in pods)
    if not done:
        return None
    devices = sum(each.done for each in workers if each.site == "device")
    return devices * sum(each.seconds for each in pods) / done
