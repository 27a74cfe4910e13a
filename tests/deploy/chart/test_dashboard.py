"""The dashboard in the chart: off by default, read-only, and its arguments."""

from fairlead.cli.main import build_parser
from tests.deploy.chart.charts import Chart, one

ON = {"dashboard.enabled": True}
_REVIEWS = {"tokenreviews", "subjectaccessreviews"}


def test_it_is_off_by_default(chart: Chart) -> None:
    assert not [each for each in chart.render({}) if "dashboard" in each["metadata"]["name"]]


def test_its_roles_let_it_change_nothing(chart: Chart) -> None:
    roles = [each for each in chart.render(ON) if each["kind"] in ("ClusterRole", "Role")]
    own = [each for each in roles if each["metadata"]["name"] == "fairlead-dashboard"]
    assert len(own) == 2
    for rule in (rule for role in own for rule in role["rules"]):
        allowed = {"create"} if set(rule["resources"]) <= _REVIEWS else {"get", "list", "watch"}
        assert set(rule["verbs"]) <= allowed
        assert "secrets" not in rule["resources"]


def test_the_program_accepts_its_arguments(chart: Chart) -> None:
    values = {**ON, "dashboard.allow": ["cancel", "drain"], "dashboard.tls.secretName": "page"}
    deployment = one(chart.render(values), "Deployment", "fairlead-dashboard")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    options = build_parser().parse_args(container["args"])
    assert (options.allow, options.tls_cert) == ("cancel,drain", "/etc/fairlead/tls/tls.crt")
    assert "fairlead-dashboard" in options.host
    assert deployment["spec"]["replicas"] == 1
