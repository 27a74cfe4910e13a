"""`fairlead device sync` and `unit`: the program that empties the queue, and how systemd runs it."""

import argparse
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.device.options import add_name, place_of, say
from fairlead.units import pluralize

if TYPE_CHECKING:
    import socket

    from fairlead.device.agent import DeviceAgent
    from fairlead.device.place import DevicePlace
    from fairlead.device.queue import UploadQueue

_LONGEST_WAIT: Final = 3600.0
_UNIT: Final = """\
# The agent of device {name}: sends queued uploads, reports, rotates the credential.
# Install it for this user:
#   mkdir -p ~/.config/systemd/user
#   fairlead device unit --name {name} > ~/.config/systemd/user/fairlead-device-{name}.service
#   systemctl --user enable --now fairlead-device-{name}.service
#   loginctl enable-linger   # keep it running without a login
[Unit]
Description=fairlead device {name}
After=network-online.target

[Service]
ExecStart={program} device sync --follow --name {name}
Environment=XDG_STATE_HOME={state}
Restart=on-failure
RestartSec=30
MemoryMax=96M
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def add(verbs: Any) -> None:
    """Add the verbs."""
    command = verbs.add_parser(
        "sync",
        help="send queued uploads; with --follow, keep doing so",
        description="Send queued uploads, report, and rotate the credential when that is due. With --follow "
        "the program keeps running: it works offline, tries again with growing pauses, and ends on SIGTERM.",
    )
    command.add_argument("--follow", action="store_true", help="keep running")
    command.add_argument("--retry", action="store_true", help="try at once, also uploads that were refused")
    add_name(command)
    command.set_defaults(run=run)
    unit = verbs.add_parser(
        "unit",
        help="print a systemd unit that runs the agent",
        description="Print a systemd unit that runs `fairlead device sync --follow`; nothing is installed.",
    )
    add_name(unit)
    unit.set_defaults(run=_unit)


def run(options: argparse.Namespace) -> int:
    """Run the agent."""
    from fairlead.device.agent import DeviceAgent
    from fairlead.device.queue import UploadQueue
    from fairlead.device.wakeup import wake
    from fairlead.errors import DeviceError

    place = place_of(options)
    with UploadQueue(place) as queue:
        if options.retry:
            queue.retry_all()
        with place.sender_lock() as held:
            if not held and options.follow:
                raise DeviceError(f"an agent of device {place.name} runs already", "end it first")
            if not held:
                wake(place)
                say("the running agent sends them")
                return 0
            queue.sweep()
            agent = DeviceAgent(place, queue, say)
            try:
                return _follow(place, agent) if options.follow else _once(agent, queue)
            finally:
                agent.close()


def _once(agent: "DeviceAgent", queue: "UploadQueue") -> int:
    agent.step(time.time())
    if agent.problem is not None:
        raise agent.problem
    waiting, refused, _ = queue.totals()
    if not waiting:
        say("the queue is empty")
        return 0
    more = f", {refused} of them refused (`fairlead device status` says why)" if refused else ""
    say(f"{pluralize(waiting, 'upload')} left{more}")
    return 1


def _follow(place: "DevicePlace", agent: "DeviceAgent") -> int:
    from fairlead.device.wakeup import drain, listening
    from fairlead.signals import stop_signals

    with stop_signals() as stop, listening(place) as wakeup:
        say(f"the agent of device {place.name} runs")
        said = ""
        while True:
            agent.step(time.time(), lambda: _is_readable(stop))
            problem = str(agent.problem or "")
            if problem not in ("", said):
                say(problem)
            said = problem
            pause = max(0.0, agent.next_time() - time.time())
            readable, _, _ = select.select([stop.fileno(), wakeup], [], [], min(pause, _LONGEST_WAIT))
            if stop.fileno() in readable:
                break
            if wakeup in readable:
                drain(wakeup)
                agent.on_wakeup()
    say("stopped")
    return 0


def _is_readable(stop: "socket.socket") -> bool:
    return bool(select.select([stop], [], [], 0)[0])


def _unit(options: argparse.Namespace) -> int:
    import shutil

    from fairlead.device.place import devices_folder

    place = place_of(options)
    program = shutil.which("fairlead")
    state = os.path.dirname(os.path.dirname(devices_folder(os.environ)))
    command = os.path.abspath(program) if program else f"{sys.executable} -m fairlead"
    print(_UNIT.format(name=place.name, program=command, state=state), end="")
    return 0
