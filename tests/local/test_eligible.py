"""Which accelerators a job may have: decided without the engine, by a `submit` whose supervisor loads it."""

import subprocess
import sys

PROGRAM = """
import sys
from fairlead.cli.local.machine_check import check_machine
from tests.accelerators import accelerator
from tests.local.runner.jobs import queued, view
from fairlead.errors import SettingsError
from fairlead.job import Assumed, Requested

def refused(device):
    job = queued(requested=Requested(device=device), assumed=Assumed(gpus=1))
    try:
        check_machine(job, view(accelerator("a")))
    except SettingsError as error:
        return str(error)
    return ""

print(refused("a"), "|", refused("b"), "|", "numpy" in sys.modules)
"""


def test_a_device_is_checked_without_loading_the_engine() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    fits, other, loads_engine = done.stdout.strip().split("|")
    assert (fits.strip(), loads_engine.strip()) == ("", "False")
    assert other.strip() == "--device b: no such accelerator here; write one of: a"
