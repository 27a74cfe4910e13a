"""Bodies of actions: bounded in size and time, and checked."""

import asyncio
from typing import Final

import msgspec
from starlette.requests import Request

from fairlead.compat.aio import timeout
from fairlead.dashboard.answers import CancelAction, DrainAction, RightsizeAction
from fairlead.dashboard.row_types import ApiAnswer
from fairlead.serve.dashboard.faults import ApiFault

LIMIT: Final = 64 * 1024
SECONDS: Final = 10.0


async def read_body(request: Request, kind: type[ApiAnswer]) -> ApiAnswer:
    """Return the action of a request's body."""
    where, named = request.url.path, request.headers.get("content-type", "").partition(";")[0].strip()
    if named.lower() != "application/json":
        raise ApiFault(400, "the body is not JSON", "Content-Type", "send application/json")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and len(length) < 12 and int(length) > LIMIT:
        raise _too_large(where)
    body = bytearray()
    try:
        async with timeout(SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > LIMIT:
                    raise _too_large(where)
    except (TimeoutError, asyncio.TimeoutError):
        raise ApiFault(400, "the body did not arrive in time", where, "send it at once") from None
    try:
        return msgspec.json.decode(bytes(body), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiFault(400, str(error), where, "see /api/v1/openapi.json") from None


def _too_large(where: str) -> ApiFault:
    return ApiFault(413, f"the body is larger than {LIMIT >> 10} KiB", where, "send what the action needs")


def action_target(action: ApiAnswer) -> tuple[str, str]:
    """Return the key of what an action changes, and its table."""
    if isinstance(action, CancelAction):
        return action.workload, "workloads"
    if isinstance(action, DrainAction):
        return action.node, "nodes"
    assert isinstance(action, RightsizeAction), "there are three actions"
    return action.proposal, "proposals"
