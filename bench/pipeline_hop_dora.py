"""Measure one hop of dora-rs: a dataflow of two nodes that `dora run` starts and ends.

Run by pipeline_hop.py with the facts as JSON on standard input; prints the result. `dora run` starts this
file again as each of the two nodes. The receiver returns a credit for each frame: without them dora drops
most of what a sender at full speed sends. What it loses or reorders nevertheless is counted.
"""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.pipeline_hop_worker import Camera, Facts, Meter, check

FACTS: Final = "FAIRLEAD_HOP"
PATIENCE: Final = 1.0
"""Seconds after which a credit, or a frame, counts as lost."""
QUEUE: Final = 16
"""More than are under way, so that dora has no reason to drop one."""


def sender(facts: Facts) -> dict[str, Any]:
    """Send frames while credits last; a credit that does not come back in time is taken."""
    node, camera, meter = _node(), Camera(facts), Meter(facts)
    free = facts["depth"]
    for sequence in range(facts["frames"]):
        meter.count(sequence)
        while not free:
            event = node.next(timeout=PATIENCE)
            free += event is None or event["type"] in ("INPUT", "ERROR")
        free -= 1
        with node.send_output_raw("frame", facts["size"]) as buffer:
            camera.write(buffer, sequence)
    result = meter.result(facts["frames"])
    for _ in range(facts["depth"]):  # what a node has sent goes away with it
        node.next(timeout=PATIENCE)
    return result


def receiver(facts: Facts) -> dict[str, Any]:
    """Receive frames until none comes; count those that are lost and those that come out of order."""
    node, meter, newest, seen, late = _node(), Meter(facts), -1, 0, 0
    pyarrow = importlib.import_module("pyarrow")
    credit = pyarrow.array([1], pyarrow.uint8())
    while newest < facts["frames"] - 1:
        event = node.next(timeout=10 * PATIENCE)
        if event is None or event["type"] in ("STOP", "ERROR"):
            break
        if event["type"] != "INPUT":
            continue
        view = event["value"].to_numpy(zero_copy_only=True)
        sequence = int.from_bytes(view[:8].tobytes(), "little")
        check(view, sequence)
        seen, late = seen + 1, late + (sequence < newest)
        newest = max(newest, sequence)
        meter.count(seen - 1)
        del event, view
        node.send_output("credit", credit)
    result = meter.result(facts["frames"], seen)
    return result | {"lost": facts["frames"] - seen, "reordered": late}


def dataflow(facts: Facts, folder: Path) -> dict[str, Any]:
    """Return the dataflow as dora's file describes it; JSON is YAML."""

    def node(name: str, output: str, source: str) -> dict[str, Any]:
        env = {FACTS: json.dumps(facts | {"end": name, "result": str(folder / name)})}
        inputs = {"in": {"source": source, "queue_size": QUEUE}}
        return {"id": name, "path": __file__, "env": env, "inputs": inputs, "outputs": [output]}

    nodes = [node("sender", "frame", "receiver/credit"), node("receiver", "credit", "sender/frame")]
    return {"nodes": nodes}


def main(facts: Facts) -> dict[str, Any]:
    """Run the dataflow; return frames/s, the CPU milliseconds of both nodes, and what is lost."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hop.yml").write_text(json.dumps(dataflow(facts, folder)))
        command = Path(importlib.import_module("dora").__file__ or "").parent.parent / "bin" / "dora"
        # dora takes the Python of nodes from VIRTUAL_ENV.
        environment = os.environ | {"VIRTUAL_ENV": sys.prefix, "DORA_LOG_LEVEL": "error"}
        run = subprocess.run(
            [sys.executable, str(command), "run", "hop.yml"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        ends = [folder / "sender", folder / "receiver"]
        if run.returncode or not all(end.exists() for end in ends):
            raise SystemExit(f"dora run: {(run.stdout + run.stderr).strip()[-300:]}")
        sent, received = (json.loads(end.read_text()) for end in ends)
    cpu = 1000 * (sent["cpu"] + received["cpu"]) / received["frames"]
    rate = received["frames"] / received["wall"]
    return {"rate": rate, "cpu": cpu, "lost": received["lost"], "reordered": received["reordered"]}


def _node() -> Any:
    return importlib.import_module("dora").Node()


if __name__ == "__main__":
    if FACTS in os.environ:
        of_node = json.loads(os.environ[FACTS])
        result = {"sender": sender, "receiver": receiver}[of_node["end"]](of_node)
        Path(of_node["result"]).write_text(json.dumps(result))
    else:
        print(json.dumps(main(json.loads(sys.stdin.readline()))), flush=True)
