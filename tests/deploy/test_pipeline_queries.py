"""Board and rules of pipelines and their operator, held against the pages of a real run and of a machine."""

import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairlead.serve.operator import metrics
from tests.deploy.test_grafana import BOARD, QUERIES, interpolate
from tests.deploy.test_prometheus import FILES, rules
from tests.pipeline.hosts import certificates, host
from tests.serve.operator.simulated import World
from tests.serve.operator.widgets import widget

LIMIT = 300.0
FILE = """pipeline: p
hosts:
  edge: {{address: "127.0.0.1:{port}"}}
stages:
  - {{name: camera, source: numbers, options: {{rate: 400}}, on: edge}}
  - {{name: work, run: "tests.pipeline.stages:slow", batch: {{most: 2, wait: 1ms}}}}
  - {{name: log, sink: "null"}}
edges:
  - {{from: camera, to: work, policy: drop_oldest, depth: 1, max_age: 10s}}
  - {{from: work, to: log}}
"""
UNSEEN = {"fairlead_pipeline_stage_dropped_total"}
"""Of live sources alone; tests/test_pipeline_page.py has it."""
OF_TARGETS = {"instance", "namespace", "le"}
"""Labels that Prometheus adds, and that of the buckets of a histogram."""
EXPRESSIONS = [
    *(rule["expr"] for path in FILES for rule in rules(path)),
    *(interpolate(expression) for _, expression in QUERIES),
    *(variable["definition"] for variable in BOARD["templating"]["list"] if variable["type"] == "query"),
]
OURS = re.compile(r"(?<![\w:])(fairlead_(?:pipeline|operator)_\w+)(?![\w:])(?:\{([^}]*)\})?")
GROUPS = re.compile(r"\b(?:by|on|group_left) \(([^)]*)\)")
Labels = dict[str, set[str]]


def labels_of(page: str) -> Labels:
    """Return the labels of each metric of a page; those of a histogram are under each of its names."""
    labels: Labels = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def run_page(folder: Path) -> str:
    """Return the page of a real run over a host, once frames were dropped and its host was heard of."""
    with host(Path.cwd(), certificates(folder, "edge")) as server:
        file = folder / "p.yaml"
        file.write_text(FILE.format(port=server.port))
        own = certificates(folder, "coordinator")
        words = [
            "run",
            str(file),
            "-q",
            "--metrics",
            "0",
            "--ca",
            own.ca,
            "--cert",
            own.cert,
            "--key",
            own.key,
        ]
        command = [sys.executable, "-m", "fairlead", "pipeline", *words]
        child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            return _page_of(child)
        finally:
            child.kill()
            child.communicate()


def _page_of(child: "subprocess.Popen[str]") -> str:
    assert child.stderr is not None
    where = re.search(r"http://\S+", child.stderr.readline())
    assert where is not None
    until = time.monotonic() + LIMIT
    complete = (
        r'edge_dropped_total\{[^}]*reason="oldest"\} [1-9]',
        r'certificate_expiry_timestamp_seconds\{[^}]*host="edge"\}',
        r'edge_age_seconds_count\{[^}]*to="log"\} [1-9]',
    )
    while True:
        assert time.monotonic() < until
        with urllib.request.urlopen(where[0], timeout=LIMIT) as answer:
            page: str = answer.read().decode()
        if all(re.search(pattern, page) for pattern in complete):
            return page
        time.sleep(0.05)


def operator_page() -> str:
    """Return the page of an operator that has reconciled a resource."""
    world = World()
    world.create(widget("a", configs=1))
    world.settle()
    (replica,) = world.replicas
    machine = replica.machine
    requests = {("widgets", "done"): 1}  # counted by the driver
    return metrics.render(machine.metrics, machine.gauges(world.clock.now), requests).decode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Labels:
    """Return the labels of each metric that the programs serve."""
    return labels_of(run_page(tmp_path_factory.mktemp("run")) + operator_page())


def test_every_query_reads_metrics_and_labels_that_are_served(served: Labels) -> None:
    read = set()
    for expression in EXPRESSIONS:
        found = OURS.findall(expression)
        names = {name for name, _ in found} - UNSEEN
        read |= names
        assert names <= served.keys(), expression
        for name, matchers in found:
            asked = set(re.findall(r"(\w+)\s*(?:=|!)", matchers))
            assert name in UNSEEN or asked <= served[name] | OF_TARGETS, (name, expression)
        groups = {label for group in GROUPS.findall(expression) for label in re.findall(r"\w+", group)}
        known = OF_TARGETS.union(*(served[name] for name in names))
        assert not names or groups <= known | {"reason"}, expression
    assert len(read) > 20
