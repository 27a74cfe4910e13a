"""Draw frames a second and latency by image size, one panel for each kernel and figure."""

from collections.abc import Mapping
from typing import Any

from fairlead.simulate.report.plot import Panel, chart


def svg(answer: Mapping[str, Any]) -> str:
    """Return one self-contained picture: a line for each arrangement on one machine."""
    rows = answer["one_machine"]
    names = list(dict.fromkeys(row["arrangement"] for row in rows))
    panels = []
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        for title, key, factor in (("frames/s", "frames_per_s", 1.0), ("latency, ms", "latency_s", 1000.0)):
            lines = [
                sorted(
                    (row["width"] * row["height"] / 1000, row[key] * factor)
                    for row in rows
                    if (row["kernel"], row["arrangement"]) == (kernel, name)
                )
                for name in names
            ]
            panels.append(
                Panel(
                    f"{kernel} kernel: {title}",
                    [[pixels for pixels, _ in line] for line in lines],
                    [[value for _, value in line] for line in lines],
                )
            )
    end = max(row["width"] * row["height"] / 1000 for row in rows)
    return chart(f"conv, ReLU, max-pool on {answer['cores']} cores, by size", names, panels, end, "kpixel")
