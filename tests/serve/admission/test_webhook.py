"""The webhook with a cluster of scripted answers: what it reads, and what it does where it cannot."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from fairlead.cli.main import main
from fairlead.cluster.client import Client
from fairlead.errors import ClusterUnavailableError, MissingApiError, NotFoundError
from fairlead.serve.admission.review import BINDING, EVICTION
from fairlead.serve.admission.webhook import Webhook
from fairlead.settings.admission import Rules

ACCOUNT = "system:serviceaccount:fairlead-system:fairlead-scheduler"
PODS = "/api/v1/namespaces/shop/pods"
GROUP = "/apis/scheduling.k8s.io/v1beta1/namespaces/shop/podgroups/crew"


class Answers:
    """A client that answers from a table; `fresh` is what etcd has and the cache does not have yet."""

    def __init__(self, cached: Mapping[str, Any], fresh: Mapping[str, Any] | None = None) -> None:
        self._cached, self._fresh = cached, {**cached, **(fresh or {})}
        self.requests: list[str] = []

    async def request(self, method: str, path: str, *, query: Mapping[str, str] | None = None) -> bytes:
        """Answer a GET."""
        assert method == "GET"
        self.requests.append(f"{path}?{','.join(query or {})}")
        document = (self._cached if (query or {}).get("resourceVersion") == "0" else self._fresh).get(path)
        if isinstance(document, Exception):
            raise document
        if document is None:
            raise NotFoundError(f"nothing at {path}")
        return json.dumps(document).encode()


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": {"schedulerName": "ours", **spec},
    }


def ask(cluster: Answers, what: str, name: str, user: str = ACCOUNT) -> tuple[int, str]:
    """Return the status, and the rule that refuses; empty where it is allowed."""
    meta = {"name": name, "uid": name}
    document = {"kind": what.title(), "metadata": meta, "deleteOptions": {"preconditions": {"uid": name}}}
    request = {
        "uid": "1",
        "namespace": "shop",
        "name": name,
        "userInfo": {"username": user},
        "object": document,
    }
    body = json.dumps({"kind": "AdmissionReview", "request": request}).encode()
    webhook = Webhook(cast("Client", cluster), Rules(ACCOUNT, "ours"), print)
    response = asyncio.run(webhook.answer(body))
    if response.status != 200:
        return response.status, response.body.decode()
    message = json.loads(response.body)["response"].get("status", {}).get("message", "")
    return 200, message.partition(":")[0].removeprefix("fairlead-scheduler/")


def test_other_accounts_are_allowed_and_nothing_is_read() -> None:
    cluster = Answers({})
    assert ask(cluster, BINDING, "web", "another-user") == (200, "")
    assert cluster.requests == []


def test_a_binding_costs_one_read_of_the_cache() -> None:
    cluster = Answers({f"{PODS}/web": pod("web")})
    assert ask(cluster, BINDING, "web") == (200, "")
    assert cluster.requests == [f"{PODS}/web?resourceVersion"]


@pytest.mark.parametrize("old", [{}, {f"{PODS}/web": {**pod("web"), "metadata": {"uid": "old"}}}])
def test_a_pod_that_the_cache_does_not_have_is_read_again(old: dict[str, Any]) -> None:
    cluster = Answers(old, {f"{PODS}/web": pod("web")})
    assert ask(cluster, BINDING, "web") == (200, "")
    foreign = Answers(old, {f"{PODS}/web": pod("web", schedulerName="another")})
    assert ask(foreign, BINDING, "web") == (200, "own-pods")


def test_without_a_readable_pod_nothing_is_allowed() -> None:
    away = Answers({f"{PODS}/web": ClusterUnavailableError("gone")})
    for what in (BINDING, EVICTION):
        status, message = ask(away, what, "web")
        assert (status, "could not be read" in message) == (503, True)
    assert ask(Answers({}), "pod", "web") == (200, "known")


def test_a_body_that_is_not_a_review_is_refused() -> None:
    webhook = Webhook(cast("Client", Answers({})), Rules(ACCOUNT), print)
    assert asyncio.run(webhook.answer(b"{}")).status == 400


@pytest.mark.parametrize(
    ("group", "rule"),
    [
        ({"spec": {"priority": 9}}, ""),
        ({"spec": {"priority": 5}}, "lower-priority"),
        (MissingApiError("no groups"), "lower-priority"),
        (None, "lower-priority"),
    ],
)
def test_the_priority_of_a_gang_counts(group: Any, rule: str) -> None:
    waiting = pod("member", schedulingGroup={"podGroupName": "crew"})
    cluster = Answers(
        {
            f"{PODS}/web": pod("web", nodeName="n1", priority=5),
            "/api/v1/pods": {"items": [waiting]},
            **({GROUP: group} if group else {}),
        }
    )
    assert ask(cluster, EVICTION, "web") == (200, rule)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "over TLS only"),
        (["--account", "fairlead-scheduler"], "write NAMESPACE/NAME"),
    ],
)
def test_missing_options_are_errors_with_a_hint(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "admission", *words]) == 2
    assert message in capsys.readouterr().err
