"""The driver's program: `python -m fairlead.lab.csi`, inside a real node of a lab, until SIGTERM."""

import argparse
import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.lab.build.debian import DebianTools
from fairlead.lab.csi.controller import VolumeController
from fairlead.lab.csi.images import Images
from fairlead.lab.csi.node import NodeService


def say(line: str) -> None:
    """Print a line of the log."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


async def serve(options: argparse.Namespace) -> None:
    """Serve the node, and follow claims where a kubeconfig is given, until SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    images = Images(options.root, DebianTools(options.tools, {}).environment(os.environ))
    node = NodeService(options.node, options.kubelet, images, say)
    await node.open(options.kubelet)
    try:
        if options.kubeconfig is None:
            await stop.wait()
        else:
            await _control(options.kubeconfig, images, stop)
    finally:
        await node.close()


async def _control(path: Path, images: Images, stop: asyncio.Event) -> None:
    async with Client.connect(kubeconfig.load(str(path))) as client:
        work = asyncio.create_task(VolumeController(client, images, say).run())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in (work, stopped):
            task.cancel()
        if work.done():
            work.result()


def main() -> None:
    """Read the command line, and serve."""
    parser = argparse.ArgumentParser(prog="fairlead.lab.csi")
    for option in ("--root", "--kubelet", "--tools"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--kubeconfig", type=Path, help="make, enlarge and remove volumes, too")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
