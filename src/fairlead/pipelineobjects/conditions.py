"""What is said of a Pipeline. Pure."""

from fairlead.compat import StrEnum


class ConditionType(StrEnum):
    """What is said of a Pipeline."""

    ACCEPTED = "Accepted"
    """The spec is sound."""
    PLANNED = "Planned"
    """Each stage has a host."""
    READY = "Ready"
    """Frames flow."""
    PROGRESSING = "Progressing"
    """The controller changes pods, or waits for them."""
