"""The link between the two nodes of a lab: its rate by `tbf`, delay and loss by the relay.

server's pod --cni--> server --redirect--> relay --lan, tbf both ways--> edge's pod
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from fairlead.errors import EmulationError, LabError
from fairlead.lab.node import namespaces
from fairlead.lab.run.state import Lab, NodeNamespaces
from fairlead.reproduce.emulation.namespaces import rate_words

FRAMES_PORT: Final = 7070
"""On which the pods of hosts take frames."""
RELAY_PORT: Final = 7071
_RELAY: Final = "fairlead.reproduce.emulation.relay"


def set_rate(lab: Lab, number: int, bits_per_s: float | None) -> None:
    """Limit what a node sends and gets, each way; None: no limit. The first node has no link of its own."""
    for node_ns, device in namespaces.link_ends(lab.namespaces, number):
        _run(node_ns, ["tc", *rate_words(device, bits_per_s)], lab.environ)


def redirect_rules(pods: str) -> str:
    """Return the rules for `nft` that send to the relay what goes to the frames' port of pods. Pure."""
    return (
        "table ip fairlead_relay {\n"
        "  chain frames {\n"
        "    type nat hook prerouting priority dstnat; policy accept;\n"
        f"    ip daddr {pods} tcp dport {FRAMES_PORT} redirect to :{RELAY_PORT}\n"
        "  }\n"
        "}\n"
    )


@contextmanager
def relayed(lab: Lab, number: int, delay_s: float, loss: float) -> Iterator[None]:
    """Delay, and lose, what goes from pods of the first node to those of another during the block."""
    first = lab.namespaces[0]
    relay_words = [sys.executable, "-m", _RELAY, "0.0.0.0", str(RELAY_PORT)]  # noqa: S104 - of the node alone
    argv = ["setpriv", "--pdeathsig", "KILL", *relay_words]
    with subprocess.Popen(  # noqa: S603 - no shell; every argument is ours
        namespaces.enter_network(first, argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as relay:
        try:
            assert relay.stdin is not None
            assert relay.stdout is not None
            if not relay.stdout.readline():
                raise EmulationError("the relay of the lab's link did not start")
            relay.stdin.write(json.dumps({"delay_s": delay_s, "loss": loss}) + "\n")
            relay.stdin.flush()
            relay.stdout.readline()
            rules = redirect_rules(namespaces.pod_range(number))
            _run(first, ["nft", "-f", "-"], lab.environ, rules)
            yield
        finally:
            relay.kill()


def _run(node_ns: NodeNamespaces, argv: list[str], environ: Mapping[str, str], text: str = "") -> None:
    done = subprocess.run(  # noqa: S603 - no shell; every argument is ours
        namespaces.enter_network(node_ns, argv),
        input=text,
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise LabError(f"{' '.join(argv[:3])} on {node_ns.node}: {lines[-1]}")
