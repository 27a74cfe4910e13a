"""Hold the dashboard's server against its own OpenAPI document, with schemathesis.

    python -m bench.dashboard_fuzz --tool .venv/fuzz

The server shows a sample cluster whose pods can be cancelled, in a process of its own.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from fairlead.catalog import load
from fairlead.dashboard.row_types import ApiAnswer
from fairlead.dashboard.sources.snapshot import SnapshotSource
from fairlead.dashboard.viewer import Viewer
from fairlead.serve.dashboard.access import OneToken
from fairlead.serve.dashboard.app import Dashboard
from fairlead.serve.dashboard.program import ServeOptions, run
from fairlead.settings import Address
from tests.dashboard.samples import cluster

TOKEN: Final = "fuzz-token-of-the-dashboard"
CHECKS: Final = (
    "not_a_server_error,response_schema_conformance,status_code_conformance,content_type_conformance"
)


class IdleSource(SnapshotSource):
    """A snapshot whose actions do nothing."""

    async def act(self, action: ApiAnswer, token: str) -> str | None:
        """Say that it is done."""
        return "done"


def serve() -> None:
    """Be the server; print its address."""
    viewer = Viewer("fuzz", actions=("cancel", "drain", "rightsize"))
    source = IdleSource(cluster(20, 60), "cluster.json", load(), time.time)
    access = OneToken(TOKEN, viewer)
    options = ServeOptions(Address("127.0.0.1", 0))
    run(lambda: Dashboard(source, access), options, lambda address: print(address, flush=True))


def main() -> int:
    """Run schemathesis; streams are left out: they have no end."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tool", metavar="FOLDER", help="where schemathesis is installed")
    parser.add_argument("--examples", metavar="N", type=int, default=50, help="for each path (default: 50)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    command = [sys.executable, "-m", "bench.dashboard_fuzz", "--serve"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        words = ["run", f"{address}api/v1/openapi.json", "-H", f"Authorization: Bearer {TOKEN}"]
        words += ["--exclude-path", "/events", "--checks", CHECKS, "--max-examples", str(options.examples)]
        path = {"PYTHONPATH": str(Path(options.tool).resolve())} if options.tool else {}
        tool = "from schemathesis.cli import schemathesis; schemathesis()"
        return subprocess.run(
            [sys.executable, "-c", tool, *words], env=os.environ | path, check=False
        ).returncode
    finally:
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    raise SystemExit(main())
