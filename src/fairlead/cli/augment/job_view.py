"""Jobs over many inputs as rows, progress and summaries; from the documents of their coordinator."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.cli.output.table import Cell, Column, Fit
from fairlead.units import format_bytes, format_duration, pluralize

LIST: Final = (
    Column("JOB", Fit.KEEP, identity=True),
    Column("NAME", Fit.MIDDLE),
    *(Column(each, Fit.KEEP) for each in ("STATE", "INPUTS", "DONE", "FAILED", "DEVICE", "SERVER", "LEFT")),
    Column("CREATED", Fit.KEEP, wide=True),
)
WORKERS: Final = tuple(
    Column(each, Fit.KEEP) for each in ("WORKER", "SITE", "DONE", "FAILED", "RATE", "HELD", "COPIES", "SEEN")
)
SITES: Final = {"device": "device", "pod": "server"}
_NO_GAIN: Final = "splitting cannot help"
_LONGEST_LEFT: Final = 100 * 86400
Job = Mapping[str, Any]


def percent(share: float) -> str:
    """Return a share in percent, with two digits below ten."""
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.2g} %"


def row(job: Job) -> Sequence[Any]:
    """Return a job as a row of the list."""
    counts = job["counts"]
    return (
        job["job"],
        job["name"] or "-",
        state_of(job),
        *(Cell(f"{counts[name]:,}", counts[name]) for name in ("inputs", "done", "failed")),
        rate_text(site_rate(job, "device")),
        rate_text(site_rate(job, "pod")),
        left_text(job),
        time.strftime("%Y-%m-%d %H:%M", time.localtime(job["created"])),
    )


def state_of(job: Job) -> str:
    """Return the state of a job: one that has ended with failed inputs has failed in part."""
    return "failed" if job["state"] == "done" and job["counts"]["failed"] else str(job["state"])


def worker_rows(job: Job) -> list[Sequence[Any]]:
    """Return the workers of a job as rows."""
    return [
        (
            each["name"],
            SITES.get(each["site"], each["site"]),
            f"{each['done']:,}",
            f"{each['failed']:,}",
            rate_text(each.get("rate") or 0.0),
            str(each.get("held", "-")),
            str(each.get("copies", "-")),
            f"{format_duration(each['seen'])} ago" if "seen" in each else "-",
        )
        for each in job["workers"]
    ]


def site_rate(job: Job, site: str) -> float:
    """Return the inputs a second of all workers of a site."""
    return float(sum(each.get("rate") or 0.0 for each in job["workers"] if each["site"] == site))


def site_done(job: Job, site: str) -> int:
    """Return how many results the workers of a site have made."""
    return int(sum(each["done"] for each in job["workers"] if each["site"] == site))


def rate_text(rate: float) -> str:
    """Return inputs a second, or the seconds of one where they are fewer."""
    if not rate:
        return "-"
    return (
        f"{rate:,.{0 if rate >= 100 else 1}f}/s"
        if rate >= 0.95
        else f"1 in {format_duration(round(1 / rate))}"
    )


def left_text(job: Job) -> str:
    """Return the expected time until every input has a result."""
    left = job.get("seconds_left")
    if job["state"] != "running" or left is None:
        return "-"
    if not job["complete"]:
        return "follows"
    return format_duration(round(left)) if left < _LONGEST_LEFT else "-"


def gain_text(job: Job) -> str:
    """Return what a split can gain at most; empty: it is not known yet."""
    gain = job["bound"].get("gain")
    return "" if gain is None else f"a split gains at most {percent(gain)}"


def helps_text(job: Job) -> str:
    """Return that splitting cannot help, and who works instead; empty: it helps, or nothing is known."""
    decision = job.get("decision") or {}
    if chosen := decision.get("chosen"):
        reason = str(decision["reason"])
        return f"{reason}; the {chosen['compute']} works alone" if reason.startswith(_NO_GAIN) else ""
    if job.get("helps") is not False:
        return ""
    bound = job["bound"]
    slower, faster = sorted(("device", "server"), key=lambda site: float(bound[site]))
    return f"{_NO_GAIN}: the {slower} adds {percent(bound[slower] / bound[faster])}"


def progress_text(job: Job) -> str:
    """Return how far a job is, in one line."""
    counts, left = job["counts"], left_text(job)
    parts = [f"{counts['failed']:,} failed"] if counts["failed"] else []
    for site, name in SITES.items():
        if rate := site_rate(job, site):
            parts.append(f"{name} {rate_text(rate)}")
    if left not in ("-", "follows"):
        parts.append(f"{left} left")
    if text := helps_text(job) or gain_text(job):
        parts.append(text)
    return ", ".join(parts)


def summary_lines(job: Job) -> list[str]:
    """Return what a job that has ended has brought."""
    counts = job["counts"]
    seconds = (job["last_result"] or 0.0) - (job["started"] or 0.0)
    failed = f", {counts['failed']:,} failed" if counts["failed"] else ""
    left = counts["pending"] + counts["running"]
    unfinished = f", {left:,} without a result" if left else ""
    took = f" in {format_duration(round(seconds, 1))}" if seconds > 0 else ""
    inputs, results = pluralize(counts["inputs"], "input"), pluralize(counts["done"], "result")
    lines = [f"job {job['job']} {state_of(job)}: {inputs}, {results}{failed}{unfinished}{took}"]
    for site, name in SITES.items():
        if done := site_done(job, site):
            share = f" ({percent(done / counts['done'])})" if counts["done"] else ""
            at = f", {rate_text(site_rate(job, site))}" if site_rate(job, site) else ""
            lines.append(f"{name}: {pluralize(done, 'result')}{share}{at}")
    text = helps_text(job)
    return [*lines, *saved_lines(job), *([text] if text else [])]


def saved_lines(job: Job) -> list[str]:
    """Return what the devices saved the server, and how many more of them it could serve with that."""
    saved = job.get("server_seconds_saved")
    device, server = site_done(job, "device"), site_done(job, "pod")
    if not saved or not device or not server:
        return []
    return [
        f"the device saved {format_duration(round(saved, 1))} of the server's time: "
        f"it could serve {device / server:.2g} more such devices in it",
        *([gain_text(job)] if gain_text(job) else []),
    ]


def failure_line(failure: Job) -> str:
    """Return why one input has no result."""
    code = failure.get("exit")
    at = f" (exit {code})" if code else ""
    return f"{failure['path']}: {failure['error'] or 'no reason is given'}{at}"


def with_rates(job: Job, running: Job | None) -> Job:
    """Return a job that has ended with the rates that were measured while it ran."""
    if running is None or job["state"] == "running":
        return job
    rates = {each["name"]: each for each in running["workers"]}
    workers = [{**rates.get(each["name"], {}), **each} for each in job["workers"]]
    kept = {name: running.get(name) for name in ("bound", "helps", "decision")}
    return {**job, "workers": workers, **kept}


def uploads_text(files: int, size: int) -> str:
    """Return what was uploaded for workers elsewhere; empty: nothing."""
    return f"uploaded {pluralize(files, 'input')}, {format_bytes(size)}" if files else ""
