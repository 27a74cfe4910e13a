"""Every function that a selector may call: those that Kubernetes 1.37 enables for device selectors."""

from typing import Final

from fairlead.cel.functions import (
    containers,
    conversions,
    formats,
    kubernetes,
    network,
    operators,
    patterns,
    texts,
    times,
)
from fairlead.cel.functions.table import FunctionTable

TABLE: Final = FunctionTable(
    [
        *operators.OVERLOADS,
        *conversions.OVERLOADS,
        *times.OVERLOADS,
        *texts.OVERLOADS,
        *patterns.OVERLOADS,
        *containers.OVERLOADS,
        *kubernetes.OVERLOADS,
        *network.OVERLOADS,
        *formats.OVERLOADS,
    ]
)
