"""Secrets are removed wherever they stand, and what a fault report needs stays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.dump.scrub import REMOVED, Scrubber, environment_values, is_secret_name

SECRET = "s3cr3t-Zq9vK2mLx8"
TEXTS = {
    "an option with a space": f"serve store --token {SECRET} --listen :8080",
    "an option with an equals sign": f"--admin-password={SECRET} -v",
    "a quoted option": f"--api-key '{SECRET} more' --name x",
    "a header": f"Authorization: Bearer {SECRET}",
    "a header of another kind": f"authorization: basic {SECRET}==",
    "a variable": f"DB_PASSWORD={SECRET}",
    "a field of YAML": f"  clientSecret: {SECRET}",
    "a field of JSON": f'{{"user": "me", "password": "{SECRET}"}}',
    "a field of JSON in a text of JSON": f'"{{\\"refresh_token\\": \\"{SECRET}\\"}}"',
    "an address with a user": f"https://me:{SECRET}@store.example:8443/x",
    "an address with a token for a browser": f"http://127.0.0.1:8080/#token={SECRET}",
    "a query": f"GET /files?access_token={SECRET}&page=2",
    "a web token": f"token was eyJhbGciOiJSUzI1NiJ9.{SECRET}.{SECRET}",
    "an invite of ours": f"fli1.edge-1.1790000000.{SECRET}",
    "an admin token of ours": f"use fla1.1790000000.{SECRET} within five minutes",
    "a key in a file": f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}\n-----END EC PRIVATE KEY-----\n",
    "a key that was cut": f"-----BEGIN PRIVATE KEY-----\nMIG{SECRET}",
    "a token of a code host": f"clone with ghp_{SECRET.replace('-', '')}",
}
HARMLESS = (
    "--prometheus-token-file /etc/fairlead/token/token",
    "secretName: fairlead-webhook",
    "the leader's epoch is 7, its lease is held by fairlead-scheduler-0",
    "author and authority of the certificate are known",
    "passed 3 of 3 nodes; bypassed none",
    'fairlead_http_requests_total{path="/metrics",code="401"} 3',
    "https://kubernetes.default.svc:443/api/v1/pods?limit=500",
    "tokenExpirationSeconds: 3600",
)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_looks_like_a_secret_is_removed(text: str) -> None:
    scrubber = Scrubber()
    cleaned = scrubber.text(text)
    assert SECRET not in cleaned
    assert SECRET.replace("-", "") not in cleaned
    assert REMOVED in cleaned
    assert scrubber.removed > 0


@pytest.mark.parametrize("text", HARMLESS)
def test_what_a_report_needs_stays(text: str) -> None:
    scrubber = Scrubber()
    assert scrubber.text(text) == text
    assert scrubber.removed == 0


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_known_value_is_removed_wherever_it_stands(before: str, after: str) -> None:
    assert SECRET not in Scrubber([SECRET]).text(f"{before}{SECRET}{after}")


def test_command_lines_lose_the_values_of_secret_options() -> None:
    words = [
        "serve",
        "--token",
        SECRET,
        "--token-file",
        "/t",
        f"--password={SECRET}",
        f"https://u:{SECRET}@h/",
    ]
    cleaned = Scrubber().words(words)
    assert SECRET not in " ".join(cleaned)
    assert cleaned[:5] == ["serve", "--token", REMOVED, "--token-file", "/t"]


def pod() -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "example.org/app:1",
        "env": [
            {"name": "MODE", "value": SECRET},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "k"}}},
        ],
        "envFrom": [{"secretRef": {"name": "all"}}],
        "args": ["--token", SECRET, "--port", "80"],
    }
    return {
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "annotations": {"fairlead.dev/share": "1Gi", "other/config": SECRET},
            "managedFields": [{"x": SECRET}],
        },
        "spec": {
            "containers": [container],
            "initContainers": [{"name": "i", "env": [{"name": "A", "value": "b"}]}],
        },
        "status": {"message": f"pulling with password={SECRET}", "nodeInfo": {"machineID": SECRET}},
    }


def test_objects_lose_what_may_be_secret_and_keep_the_rest() -> None:
    cleaned = Scrubber(keep_annotations="fairlead.dev/").document(pod())
    assert SECRET not in str(cleaned)
    (container,) = cleaned["spec"]["containers"]
    assert container["env"] == [{"name": "MODE", "value": REMOVED}, {"name": "KEY", "value": REMOVED}]
    assert (container["image"], container["args"]) == (
        "example.org/app:1",
        ["--token", REMOVED, "--port", "80"],
    )
    assert cleaned["metadata"] == {"name": "web", "annotations": {"fairlead.dev/share": "1Gi"}}
    assert environment_values(pod()) == [SECRET, "b"]


def test_data_of_secrets_is_removed_whole() -> None:
    for kind in ("Secret", "ConfigMap"):
        document = {
            "kind": kind,
            "metadata": {"name": "x"},
            "data": {"a": SECRET},
            "stringData": {"b": SECRET},
        }
        assert Scrubber().document(document) == {"kind": kind, "metadata": {"name": "x"}, "data": REMOVED}


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("token", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("secretName", False),
        ("author", False),
        ("key", False),
    ],
)
def test_names_say_whether_their_values_are_secret(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret
