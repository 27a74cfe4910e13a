"""Export the networks as inference models: ONNX files without weights, by either of PyTorch's exporters.

Run with the Python that has PyTorch, as `bench.train_measure`.
"""

import argparse
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor

_LARGE = 4096
"""Bytes: constants below this may be shapes, which the analysis reads."""


def main() -> None:
    """Export every network by the requested exporters, several at a time."""
    from bench.train_table import NETWORKS  # noqa: PLC0415 - the workers import it themselves

    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--exporters", default="script,dynamo")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    jobs = [(name, kind, options.folder) for kind in options.exporters.split(",") for name in NETWORKS]
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 2)) as pool:
        for line in pool.map(export, jobs):
            print(line, file=sys.stderr)


def export(job: tuple[str, str, str]) -> str:
    """Export one network; return what was done."""
    import onnx  # noqa: PLC0415 - in a worker
    import torch  # noqa: PLC0415 - in a worker

    from bench.train_table import NETWORKS  # noqa: PLC0415 - in a worker

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    name, kind, folder = job
    network = NETWORKS[name]
    model = network.make().eval()
    x = torch.randn(1, *network.shape)
    if network.words:
        x = torch.randint(0, network.words, (1, *network.shape))
    path = os.path.join(folder, f"{name}.{kind}.onnx")
    try:
        torch.onnx.export(
            model, (x,), path, dynamo=kind == "dynamo", **({} if kind == "dynamo" else {"opset_version": 17})
        )
        file = onnx.load(path)
    except Exception as error:  # noqa: BLE001 - one network that an exporter cannot take must not end the bench
        return f"{name} by {kind}: not exported: {str(error)[:300]}"
    for tensor in file.graph.initializer:
        if len(tensor.raw_data) > _LARGE:
            tensor.ClearField("raw_data")
    for side in (path, f"{path}.data"):
        if os.path.exists(side):
            os.remove(side)
    onnx.save(file, path)
    return f"{name} by {kind}: {os.path.getsize(path)} bytes"


if __name__ == "__main__":
    main()
