"""Start the keeper of a device where jobs need one and none runs; take over what a killed one has left."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fairlead.ledger.liveness import is_alive
from fairlead.ledger.place import STATE_VARIABLE
from fairlead.local.background.spawn import background_environment, spawn
from fairlead.local.mps.files import KeeperFiles, KeeperStatus, keepers

if TYPE_CHECKING:
    from fairlead.ledger.place import StateDirectory
    from fairlead.local.background.lock import ProcessLock
    from fairlead.local.mps.device import MpsDevice

MODULE: Final = "fairlead.local.mps"


def ensure_keeper(place: "StateDirectory", device: "MpsDevice", environ: Mapping[str, str]) -> None:
    """Start the keeper of a device if none runs; call it after the record of the job is written.

    The lock passes from this process to the keeper, so that no second one starts in between.
    """
    files = KeeperFiles.of(place.private, device)
    lock = files.take_lock()
    if lock is None:
        return
    status = files.read()
    if status is None or status.daemon is None or not is_alive(status.daemon):
        files.write(KeeperStatus(device))  # what a killed keeper said is over
    _start(place, files, lock, environ)


def tend_left_keepers(place: "StateDirectory", environ: Mapping[str, str]) -> None:
    """Start a keeper for each folder of a killed one: it ends the daemon, if no job needs it any more."""
    for key in keepers(place.private):
        files = KeeperFiles(place.private, key)
        if (lock := files.take_lock()) is not None:
            _start(place, files, lock, environ)


def _start(
    place: "StateDirectory", files: KeeperFiles, lock: "ProcessLock", environ: Mapping[str, str]
) -> None:
    environment = background_environment(environ, place.path)
    try:
        spawn(MODULE, ("--key", files.key), lock, files.log, {**environment, STATE_VARIABLE: place.path})
    finally:
        lock.close()
