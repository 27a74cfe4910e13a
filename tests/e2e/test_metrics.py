"""Metrics for Prometheus: with TLS and a token if configured, with rules and alerts that work."""

import base64
import json
import re
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tests.cluster.loopback import Authority
from tests.e2e.api import CORE, wait_for
from tests.e2e.install import CHART, NAMESPACE, Site
from tests.e2e.machines import NO_ACCELERATORS

TOKEN = "a-token-of-some-length"
_ASK = """
import ssl, sys, urllib.error, urllib.request
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
request = urllib.request.Request(sys.argv[1], headers={"Authorization": sys.argv[2]} if sys.argv[2] else {})
try:
    response = urllib.request.urlopen(request, context=context, timeout=10)
    print(response.status, len(response.read()))
except urllib.error.HTTPError as error:
    print(error.code)
"""


def test_metrics_behind_tls_and_a_token(installed: Site) -> None:
    site = installed  # whatever its values: they change at once
    pair = Authority().leaf("agent")
    secrets = {
        "metrics-pair": {"tls.crt": pair.certificate, "tls.key": pair.key},
        "metrics-token": {"token": TOKEN.encode()},
    }
    path = f"{CORE}/namespaces/{NAMESPACE}/secrets"
    site.api.create(path, [secret(name, data) for name, data in secrets.items()])
    site.install({"metrics.tls.secretName": "metrics-pair", "metrics.token.secretName": "metrics-token"})
    assert scrape(site, "") == "401"
    assert scrape(site, "Bearer wrong") == "401"
    assert scrape(site, f"Bearer {TOKEN}").startswith("200 ")
    wait_for("probes, which need no token", site.probed_agent, site.diagnostics)
    site.install()
    wait_for("probes, which use TLS no longer", site.probed_agent, site.diagnostics)
    site.api.delete(f"{path}/{name}" for name in secrets)


def test_prometheus_records_and_an_alert_fires_when_a_device_disappears(site: Site, tmp_path: Path) -> None:
    for rules in (CHART / "files" / "prometheus").glob("*.yaml"):
        text = re.sub(r"(?m)^( +for:) .*$", r"\1 0s", rules.read_text(encoding="utf-8"))
        (tmp_path / rules.name).write_text(text, encoding="utf-8")
    site.replay("server-t4")
    server = site.lab.prometheus(tmp_path)
    recorded = wait_for(
        "a recorded series", lambda: query(server, "id:fairlead_memory:bytes"), lambda: targets(server)
    )
    assert recorded[0]["metric"]["id"] == "pci-0000-3b-00-0"
    assert float(recorded[0]["value"][1]) == 16 << 30
    site.machine.replay(NO_ACCELERATORS)
    fires = 'ALERTS{alertname="FairleadAcceleratorGone", alertstate="firing", id="pci-0000-3b-00-0"}'
    wait_for("the alert", lambda: query(server, fires), lambda: query(server, "ALERTS"))


def scrape(site: Site, authorization: str) -> str:
    """Return the status and size of the response to a client inside the node."""
    agent = wait_for("a ready agent", site.ready_agent, site.diagnostics)
    url = f"https://{agent['status']['podIP']}:19809/metrics"
    done = site.lab.run(sys.executable, "-I", "-c", _ASK, url, authorization)
    return done.stdout.strip() or done.stderr


def secret(name: str, data: dict[str, bytes]) -> dict[str, Any]:
    """Return a secret."""
    packed = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {"metadata": {"name": name}, "data": packed}


def query(server: str, expression: str) -> list[dict[str, Any]]:
    """Return the result of a Prometheus query."""
    series: list[dict[str, Any]] = _get(f"{server}/api/v1/query?query={urllib.parse.quote(expression)}")[
        "result"
    ]
    return series


def targets(server: str) -> str:
    """Return Prometheus' targets and their health."""
    rows = _get(f"{server}/api/v1/targets")["activeTargets"]
    return "\n".join(f"{row['scrapeUrl']} {row['health']} {row['lastError']}" for row in rows)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)["data"]
