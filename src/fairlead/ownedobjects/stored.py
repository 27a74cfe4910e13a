"""What a stored resource of ours says of itself, for its readers. Pure."""

from typing import Any

from fairlead.reconcile import Manifest


def is_observed(document: Manifest) -> bool:
    """Return whether an operator has looked at the present spec."""
    observed = (document.get("status") or {}).get("observedGeneration")
    return bool(observed == document["metadata"].get("generation"))


def condition(document: Manifest, name: str) -> dict[str, Any]:
    """Return a condition of the present spec; empty: nothing has been said of it yet."""
    if not is_observed(document):
        return {}
    conditions = (document.get("status") or {}).get("conditions") or ()
    return next((dict(each) for each in conditions if each["type"] == name), {})


def is_true(document: Manifest, name: str) -> bool:
    """Return whether a condition of the present spec is true."""
    return condition(document, name).get("status") == "True"


def is_running(document: Manifest) -> bool:
    """Return whether it is ready, or has come to its end."""
    return is_true(document, "Ready") or condition(document, "Ready").get("reason") == "Completed"
