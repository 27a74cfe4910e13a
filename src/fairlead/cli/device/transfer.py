"""`fairlead device put`, `get` and `ls`: files of the store."""

import argparse
import os
import time
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.device.options import add_name, place_of, say
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Column, Fit
from fairlead.cli.shell import options as shared
from fairlead.units import format_bytes

if TYPE_CHECKING:
    from fairlead.device.listing import StoreEntry
    from fairlead.device.place import DevicePlace
    from fairlead.device.queue import UploadQueue

_HEAD: Final = (Column("PATH", Fit.KEEP), Column("SIZE"), Column("MODIFIED"))


def add(verbs: Any) -> None:
    """Add the verbs."""
    put = verbs.add_parser(
        "put",
        help="queue files for upload, and send them if the store is reached",
        description="Copy files into the queue, from where they are sent: by the agent if it runs, else now. "
        "Once the command returns, the uploads survive a crash and a power cut. If the store has another "
        "version than the one that this device last sent or fetched, both are kept.",
    )
    put.add_argument("files", metavar="FILE", nargs="+", help="what to upload")
    put.add_argument(
        "--to", metavar="PATH", help="the path in the store; with a slash at its end, the folder"
    )
    put.add_argument("-r", "--recursive", action="store_true", help="upload all files in folders")
    put.add_argument("--replace", action="store_true", help="replace whatever version the store has")
    put.add_argument(
        "--link",
        action="store_true",
        help="queue a hard link instead of a copy: for files that nothing writes to any more",
    )
    put.add_argument("--queue-only", action="store_true", help="do not send now")
    add_name(put)
    put.set_defaults(run=_put)
    get = verbs.add_parser(
        "get",
        help="fetch a file; an interrupted fetch goes on where it ended",
        description="Fetch a file of the store. The local file is replaced when all of it is here and its "
        "checksum is right; an interrupted fetch goes on where it ended.",
    )
    get.add_argument("path", metavar="PATH", help="the file in the store")
    get.add_argument("file", metavar="FILE", nargs="?", help="where to write it (default: its name, here)")
    add_name(get)
    get.set_defaults(run=_get)
    listing = verbs.add_parser(
        "ls", help="list a folder of the store", description="List a folder of the store."
    )
    listing.add_argument("path", metavar="PATH", nargs="?", default="", help="the folder (default: the root)")
    add_name(listing)
    shared.add_list(listing, _HEAD)
    listing.set_defaults(run=_list)


def _put(options: argparse.Namespace) -> int:
    from fairlead.device.paths import upload_paths
    from fairlead.device.queue import UploadQueue
    from fairlead.device.wakeup import wake

    place = place_of(options)
    pairs = list(upload_paths(options.files, options.to, recursive=options.recursive))
    with UploadQueue(place) as queue:
        numbers = []
        for source, path in pairs:
            upload = queue.add(source, path, time.time(), link=options.link, replace=options.replace)
            numbers.append(upload.id)
            if options.queue_only or len(pairs) == 1:
                say(f"queued {path}, {format_bytes(upload.size)}")
        if options.queue_only:
            wake(place)
            return 0
        return _send(place, queue, numbers)


def _send(place: "DevicePlace", queue: "UploadQueue", numbers: "list[int]") -> int:
    """Send the queue, unless an agent runs; return 1 if the store refuses one of these uploads."""
    from fairlead.cli.device.options import warn
    from fairlead.device.agent import DeviceAgent
    from fairlead.device.wakeup import wake

    with place.sender_lock() as held:
        if not held:
            wake(place)
            say("the running agent sends them")
            return 0
        agent = DeviceAgent(place, queue, say, reports=False)
        try:
            agent.step(time.time())
        finally:
            agent.close()
    if agent.problem is not None:
        waiting = queue.totals()[0]
        warn(f"{agent.problem}; {waiting} queued: `fairlead device sync` sends them later")
    refused = [upload for number in numbers if (upload := queue.get(number)) and upload.refused]
    return 1 if refused else 0


def _get(options: argparse.Namespace) -> int:
    from fairlead.device.download import download
    from fairlead.device.paths import store_path
    from fairlead.device.queue import UploadQueue
    from fairlead.device.session import SessionClient

    place, path = place_of(options), store_path(options.path)
    target = options.file or os.path.basename(path)
    if os.path.isdir(target):
        target = os.path.join(target, os.path.basename(path))
    with UploadQueue(place) as queue, SessionClient(place) as client:
        with progress(f"fetching {path}"):
            done = download(client.connection, path, target)
        queue.remember(done.file)
    resumed = f", {format_bytes(done.resumed)} of them from an earlier try" if done.resumed else ""
    say(f"fetched {path}, {format_bytes(done.file.size)}{resumed}")
    return 0


def _list(options: argparse.Namespace) -> int:
    from urllib.parse import urlsplit

    from fairlead.cli.output.listing import sorted_by
    from fairlead.device.listing import list_folder
    from fairlead.device.paths import store_path
    from fairlead.device.session import SessionClient

    with SessionClient(place_of(options)) as client:
        prefix = urlsplit(client.membership.url).path
        entries = list_folder(client.connection, store_path(options.path), prefix)
    entries = sorted_by(entries, options.sort_by, _HEAD, _row, _document)
    if options.output in ("json", "yaml"):
        show({"entries": [_document(entry) for entry in entries]}, options.output)
    else:
        rows = [_row(entry) for entry in entries]
        headers = not options.no_headers
        show_list(_HEAD, rows, options.output, headers=headers, empty="no files", color=options.color)
    return 0


def _document(entry: "StoreEntry") -> "dict[str, Any]":
    return {"path": entry.path, "size_bytes": entry.size, "modified": entry.modified}


def _row(entry: "StoreEntry") -> "tuple[str, str, str]":
    modified = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.modified)) if entry.modified else "-"
    return entry.path, "-" if entry.size is None else format_bytes(entry.size), modified
