"""The client's requests, and the errors for refused ones; the real server is in test_client_real.py."""

import asyncio
import gzip
import json
from collections.abc import Callable
from random import Random

import pytest
from aiohttp import web

from fairlead import errors
from fairlead.cluster.client import Client
from fairlead.cluster.http.retry import RetryPolicy, RetryState, delay_after_disconnect, delay_after_response
from fairlead.cluster.kinds import LEASES, NODES, PODS
from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import Pod
from tests.cluster.loopback import (
    SHORT_RETRY,
    Handler,
    RecordedRequests,
    always,
    in_order,
    pod,
    run_with_responses,
    serve_responses,
    status,
)

# Lists


def paged(names: list[str], expire_at: int | None = None) -> Handler:
    """Serve a list page by page, and expire the continue token from `expire_at` on."""

    async def serve(request: web.BaseRequest) -> web.Response:
        start, limit = int(request.query.get("continue", "0")), int(request.query.get("limit", "0"))
        if expire_at is not None and start >= expire_at:
            return status(410, "Expired", "The provided continue parameter is too old")
        end = start + limit if limit else len(names)
        more = {"continue": str(end)} if end < len(names) else {}
        items = [pod(name) for name in names[start:end]]
        return web.json_response({"items": items, "metadata": {"resourceVersion": "42", **more}})

    return serve


def test_a_list_comes_in_pages() -> None:
    names = [f"p{number}" for number in range(25)]

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        listing = await client.list(PODS, "x", limit=10, labels="a=b,c in (d, e)", resource_version="7")
        assert [item.metadata.name for item in listing.items] == names
        assert listing.resource_version == "42"
        assert seen.requests[0] == (
            "GET /api/v1/namespaces/x/pods?labelSelector=a%3Db%2Cc%20in%20%28d%2C%20e%29&resourceVersion=7"
            "&resourceVersionMatch=NotOlderThan&limit=10"
        )
        assert [("resourceVersion" in line, "labelSelector" in line) for line in seen.requests[1:]] == [
            (False, True),
            (False, True),
        ]

    run_with_responses(paged(names), scenario)


def test_a_list_whose_version_expired_is_read_again_in_one_page() -> None:
    names = [f"p{number}" for number in range(25)]

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        listing = await client.list(PODS, limit=10)
        assert [item.metadata.name for item in listing.items] == names, "nothing twice, nothing lost"
        assert "limit" not in seen.requests[-1]

    run_with_responses(paged(names, expire_at=20), scenario)


def test_responses_may_be_compressed() -> None:
    async def serve(request: web.BaseRequest) -> web.Response:
        body = json.dumps({"items": [pod("a")], "metadata": {}}).encode()
        if request.headers["Accept-Encoding"] != "gzip":
            return web.Response(body=body)
        return web.Response(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})

    async def run() -> None:
        async with serve_responses(serve) as seen:
            for compress in (None, True, False):
                async with Client.connect(seen.config, compress=compress) as client:
                    assert len((await client.list(PODS)).items) == 1
            encodings = [headers["Accept-Encoding"] for headers in seen.headers]
            assert encodings == ["identity", "gzip", "identity"], "on this machine gzip only costs time"

    asyncio.run(run())


# Refusals

REFUSALS: list[tuple[int, str, str, dict[str, object], type[errors.ClusterError], str]] = [
    (
        401,
        "Unauthorized",
        "Unauthorized",
        {},
        errors.AccessError,
        "does not accept the credentials of user 'jane'",
    ),
    (
        403,
        "Forbidden",
        'pods "a" is forbidden: User "eve" cannot get resource "pods" in API group "" in the namespace "x"',
        {"name": "a", "kind": "pods"},
        errors.AccessError,
        "eve may not get pods 'a' in namespace 'x'",
    ),
    (
        403,
        "Forbidden",
        'pods "a" is forbidden: exceeded quota: small',
        {"name": "a", "kind": "pods"},
        errors.AccessError,
        "exceeded quota",
    ),
    (404, "NotFound", 'pods "a" not found', {"name": "a", "kind": "pods"}, errors.NotFoundError, "pods 'a'"),
    (404, "NotFound", "the server could not find it", {}, errors.MissingApiError, "does not serve pods"),
    (409, "AlreadyExists", 'pods "a" already exists', {"name": "a"}, errors.AlreadyExistsError, "already"),
    (409, "Conflict", "the object has been modified", {"name": "a"}, errors.ConflictError, "modified"),
    (410, "Expired", "too old resource version", {}, errors.GoneError, "too old"),
    (410, "Gone", "", {}, errors.GoneError, "no longer keeps"),
    (
        422,
        "Invalid",
        "long",
        {"causes": [{"field": "spec.x", "message": "must\n be y"}, {"message": "and z"}]},
        errors.InvalidError,
        "spec.x: must be y; and z",
    ),
    (400, "BadRequest", "cannot restore", {}, errors.InvalidError, "cannot restore"),
    (413, "RequestEntityTooLarge", "limit is 3145728", {}, errors.TooLargeError, "limit is"),
    (500, "", "etcdserver: request is too large", {}, errors.TooLargeError, "is too large"),
    (
        422,
        "Invalid",
        "claim is invalid",
        {"causes": [{"field": "metadata.annotations", "message": "Too long: may not be more than 262144"}]},
        errors.TooLargeError,
        "the object is too large",
    ),
    (500, "InternalError", "etcdserver: no leader", {}, errors.ClusterUnavailableError, "no leader"),
    (
        504,
        "Timeout",
        "Too large resource version: 9, current: 2",
        {"causes": [{"reason": "ResourceVersionTooLarge", "message": "x"}], "retryAfterSeconds": 1},
        errors.TooNewError,
        "Too large",
    ),
    (504, "Timeout", "request did not complete", {}, errors.ClusterUnavailableError, "did not complete"),
    (418, "Teapot", "short and stout", {}, errors.ClusterError, "short and stout"),
]


@pytest.mark.parametrize(("code", "reason", "message", "details", "kind", "says"), REFUSALS)
def test_a_refused_request_raises_the_error_of_its_reason(
    code: int,
    reason: str,
    message: str,
    details: dict[str, object],
    kind: type[errors.ClusterError],
    says: str,
) -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        with pytest.raises(errors.ClusterError) as caught:
            await client.get(PODS, "a", "x")
        error = caught.value
        assert type(error) is kind
        assert says in str(error)
        assert "\n" not in str(error)
        assert (error.code, error.reason) == (code, reason)
        assert len(seen.requests) == 1

    run_with_responses(always(lambda: status(code, reason, message, **details)), scenario)


def test_responses_that_are_not_from_kubernetes() -> None:
    pages = in_order(
        lambda: web.Response(text="404 page not found", status=404),
        lambda: web.Response(text="<html>Log in</html>", content_type="text/html"),
        lambda: web.Response(status=302, headers={"Location": "https://login"}),
        lambda: web.Response(text="<h1>502</h1>", status=502),
    )

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        assert not await client.serves("example.org", "v1")
        with pytest.raises(errors.ClusterError, match="cannot be read") as caught:
            await client.get(NODES, "n")
        assert "login page" in caught.value.hint
        with pytest.raises(errors.ClusterError, match="302"):
            await client.get(NODES, "n")
        with pytest.raises(errors.ClusterUnavailableError, match="502"):
            await client.get(NODES, "n")

    run_with_responses(pages, scenario)


# Retries


def busy(code: int = 429, after: str | None = "0") -> Callable[[], web.Response]:
    headers = {"Retry-After": after} if after is not None else {}
    return lambda: web.Response(status=code, headers=headers, text="busy")


def fine() -> web.Response:
    return web.json_response(pod("a"))


def test_a_retry_after_is_obeyed() -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        assert (await client.get(PODS, "a", "x")).metadata.name == "a"
        await client.patch(PODS, "a", {}, "x")
        assert [line.split()[0] for line in seen.requests] == ["GET", "GET", "GET", "PATCH", "PATCH"]

    run_with_responses(in_order(busy(), busy(503), fine, busy(), fine), scenario)


def test_retries_are_limited() -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        with pytest.raises(errors.TooManyRequestsError):
            await client.get(PODS, "a", "x")
        assert len(seen.requests) == SHORT_RETRY.max_attempts

    run_with_responses(always(busy()), scenario)
    for reply in (busy(429, "3600"), busy(503, None)):

        async def once(client: Client, seen: RecordedRequests) -> None:
            with pytest.raises((errors.TooManyRequestsError, errors.ClusterUnavailableError)):
                await client.get(PODS, "a", "x")
            assert len(seen.requests) == 1

        run_with_responses(always(reply), once)


def test_delays_are_bounded_and_spread() -> None:
    policy = RetryPolicy(max_attempts=5, max_wait=20.0)
    delays = {delay_after_response(429, 3.0, RetryState(1), policy, Random(seed)) for seed in range(50)}
    assert all(delay is not None and 3.0 <= delay <= 4.5 for delay in delays)
    assert len(delays) > 40
    assert delay_after_response(429, None, RetryState(1), policy, Random(1)) is not None
    assert delay_after_response(429, 3.0, RetryState(5), policy, Random(1)) is None
    assert delay_after_response(429, 3.0, RetryState(2, waited=18.0), policy, Random(1)) is None
    assert delay_after_response(500, 3.0, RetryState(1), policy, Random(1)) is None
    assert delay_after_disconnect("POST", RetryState(1), Random(1)) is None


# Requests


def test_each_verb_sends_the_request_that_the_api_expects() -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        await client.patch(PODS, "a", [], "x", patch_type="json")
        await client.patch(PODS, "a", {}, "x", patch_type="strategic", field_manager="me", force=True)
        await client.patch(LEASES, "a", {"metadata": {"name": "a"}}, "x", patch_type="apply", force=True)
        await client.patch_status(NODES, "n", {"status": {}})
        await client.delete(PODS, "a", "x", uid="u", resource_version="7", grace=0)
        await client.delete_collection(PODS, "x", labels="a=b", grace=0)
        types = [headers.get("Content-Type") for headers in seen.headers]
        assert types[:4] == [
            "application/json-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
            "application/merge-patch+json",
        ]
        assert seen.requests == [
            "PATCH /api/v1/namespaces/x/pods/a?fieldManager=fairlead",
            "PATCH /api/v1/namespaces/x/pods/a?fieldManager=me",
            "PATCH /apis/coordination.k8s.io/v1/namespaces/x/leases/a?fieldManager=fairlead&force=true",
            "PATCH /api/v1/nodes/n/status?fieldManager=fairlead",
            "DELETE /api/v1/namespaces/x/pods/a",
            "DELETE /api/v1/namespaces/x/pods?labelSelector=a%3Db",
        ]
        assert json.loads(seen.bodies[2])["kind"] == "Lease"
        assert json.loads(seen.bodies[4]) == {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u", "resourceVersion": "7"},
        }

    run_with_responses(always(fine), scenario)


def test_a_partial_object_cannot_replace_the_whole() -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        with pytest.raises(TypeError, match="pods are read in part only"):
            await client.update(PODS, Pod(metadata=Metadata(name="a")), "x")
        with pytest.raises(ValueError, match="pods are namespaced"):
            await client.get(PODS, "a")
        assert not seen.requests

    run_with_responses(always(fine), scenario)


def test_concurrent_requests_are_limited() -> None:
    busy_now, most = [0], [0]

    async def serve(_: web.BaseRequest) -> web.Response:
        busy_now[0] += 1
        most[0] = max(most[0], busy_now[0])
        await asyncio.sleep(0.01)
        busy_now[0] -= 1
        return fine()

    async def run() -> None:
        async with serve_responses(serve) as seen, Client.connect(seen.config, connections=3) as client:
            await asyncio.gather(*(client.get(PODS, "a", "x") for _ in range(20)))

    asyncio.run(run())
    assert most == [3]
