"""The door to the YAML library, opened only where there is YAML to read: a pod finds its cluster without."""

from typing import Any

from fairlead.errors import MissingPartError


class NotYamlError(ValueError):
    """A text is not YAML; says what and where."""


def parse(text: bytes) -> Any:
    """Return what a YAML document says; NotYamlError where it is none."""
    try:
        import yaml  # noqa: PLC0415 - the agent's image has none, and needs none
    except ModuleNotFoundError:
        raise MissingPartError("reading a kubeconfig needs pyyaml") from None
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise NotYamlError(f"{error.problem}{where}") from None
    except yaml.YAMLError as error:
        raise NotYamlError(" ".join(str(error).split())) from None
