"""What a device states of a job when it submits it: for the policy, until workers have shown their rates."""

import argparse
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fairlead.device.place import DevicePlace
    from fairlead.splitting.policy.facts import OffloadLink, SideFacts
    from fairlead.submission.run import InputChoice

_SAMPLE: Final = 64
"""Inputs whose sizes are looked at."""


def stated_facts(options: argparse.Namespace, place: "DevicePlace", choice: "InputChoice") -> dict[str, Any]:
    """Return what is known of the device, the link, the space and the sizes of the inputs."""
    from fairlead.device.contact import load_contact
    from fairlead.splitting.policy.document import facts_to_json
    from fairlead.splitting.policy.facts import OffloadFacts, SideFacts, Storage
    from fairlead.units import Bytes

    session = load_contact(place).session
    used, quota = session.get("used"), session.get("quota")
    room = Bytes(max(0, int(quota) - int(used))) if used is not None and quota is not None else None
    facts = OffloadFacts(
        0.0,
        _device(options, place),
        SideFacts(free=room),
        _link(place),
        _mean_size(choice),
        storage=Storage.DEVICE if options.out else Storage.SERVER,
    )
    return facts_to_json(facts)


def _device(options: argparse.Namespace, place: "DevicePlace") -> "SideFacts":
    from fairlead.splitting.policy.facts import SideFacts
    from fairlead.splitting.policy.rates import predicted_rate, unknown_rate
    from fairlead.units import Bytes

    folder = options.out or place.folder
    while not os.path.isdir(folder):
        folder = os.path.dirname(os.path.abspath(folder))
    free = Bytes(shutil.disk_usage(folder).free)
    estimate = _estimate(options.model) if options.model is not None else None
    rate = unknown_rate() if estimate is None else predicted_rate(estimate, options.slots)
    return SideFacts(rate, free=free, busy_watts=float((estimate.watts if estimate else None) or 0.0))


def _estimate(path: str) -> "Any | None":
    """Return the estimate of a model on what ONNX Runtime would run it; None: nothing predicts it here."""
    from fairlead.errors import FairleadError

    with suppress(FairleadError, ImportError):
        from fairlead import ort
        from fairlead.catalog import load
        from fairlead.detect import detect
        from fairlead.host import Host
        from fairlead.local.predict import predict_here

        inventory = detect(Host("/"), load())
        kinds = {"cpu"} if ort.available(ort.module("the prediction")) <= {"cpu"} else {"cpu", "gpu"}
        found = predict_here(path, [], None, inventory, os.environ)
        usable = [
            found[each.id] for each in inventory.accelerators if each.kind in kinds and each.id in found
        ]
        return min(
            (each for each in usable if each.seconds), key=lambda each: each.seconds or 0.0, default=None
        )
    return None


def _link(place: "DevicePlace") -> "OffloadLink | None":
    """Return the link as it was measured last; None: it never was."""
    from fairlead.device.report import load_report
    from fairlead.splitting.policy.facts import OffloadLink

    report = load_report(place)
    measured = report.link if report is not None else {}
    up, down = measured.get("up_bytes_per_s", 0.0), measured.get("down_bytes_per_s", 0.0)
    return OffloadLink(up, down, measured.get("round_trip_s", 0.0)) if up and down else None


def _mean_size(choice: "InputChoice") -> float:
    """Return the mean size of the first inputs; 0: they cannot be looked at before they are read."""
    from fairlead.submission.sources import InputFile, below_folder, from_lines

    sizes: Sequence[int] = ()
    with suppress(OSError):
        if os.path.isdir(choice.inputs):
            sizes = _sizes(islice(below_folder(choice.inputs), _SAMPLE), InputFile)
        elif choice.inputs != "-":
            with open(choice.inputs, encoding="utf-8", errors="surrogateescape") as lines:
                sizes = _sizes(from_lines(islice(lines, _SAMPLE), choice.base), InputFile)
    return sum(sizes) / len(sizes) if sizes else 0.0


def _sizes(found: Any, kind: type) -> list[int]:
    sizes = []
    for each in found:
        with suppress(OSError):
            if isinstance(each, kind):
                sizes.append(os.stat(each.file).st_size)  # type: ignore[attr-defined]
    return sizes
