"""Train networks for some steps in PyTorch: seconds, and the allocator's own count of peak memory.

Run by `bench.train` as a process of its own for each device, with any Python that has PyTorch: it imports
nothing of fairlead. It prints one JSON document.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import nn

from bench.train_table import NETWORKS, Network

_BUSY = 0.4
"""Seconds of training before the power is read: it rises slowly."""


def main() -> None:
    """Measure every network in every mode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--modes", default="fp32:sgd,amp:adam,fp32:adam,amp:sgd")
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch-share", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    rows = []
    chosen = options.only.split(",") if options.only else list(NETWORKS)
    for name, network in ((name, NETWORKS[name]) for name in chosen):
        for mode in options.modes.split(","):
            precision, optimizer = mode.split(":")
            batch = max(2, int(network.batch * options.batch_share))
            try:
                row = measure(network, batch, precision, optimizer, options.device, options.steps)
            except RuntimeError as error:
                print(f"{name} {mode}: {str(error)[:200]}", file=sys.stderr)
                continue
            setup = {"network": name, "precision": precision, "optimizer": optimizer, "batch": batch}
            rows.append({**setup, "fitted": network.fitted, **row})
            print(json.dumps(rows[-1]), file=sys.stderr)
    device = (
        torch.cuda.get_device_name()
        if options.device == "cuda"
        else f"cpu, {torch.get_num_threads()} threads"
    )
    json.dump({"device": device, "torch": torch.__version__, "rows": rows}, sys.stdout)


class Step:
    """One training step, in its parts."""

    def __init__(self, network: Network, batch: int, precision: str, optimizer: str, device: str) -> None:
        torch.manual_seed(0)
        kind = torch.bfloat16 if precision == "bf16" else torch.float32
        self.model: nn.Module = network.make().to(device, kind).train()
        if network.words:
            self.x = torch.randint(0, network.words, (batch, *network.shape), device=device)
        else:
            self.x = torch.randn(batch, *network.shape, device=device, dtype=kind)
        makers: dict[str, Any] = {
            "sgd": lambda all_: torch.optim.SGD(all_, 1e-3, momentum=0.9),
            "adam": lambda all_: torch.optim.Adam(all_, 1e-4),
        }
        self.optimizer = makers[optimizer](self.model.parameters())
        self.amp, self.device = precision == "amp", device
        self.half = torch.float16 if device == "cuda" else torch.bfloat16
        self.scaler = torch.amp.GradScaler(device) if self.amp and device == "cuda" else None
        with torch.no_grad():
            shape = self.model(self.x[:2]).shape
        self.y = torch.randint(0, shape[1], (batch, *shape[2:]), device=device)

    def forward(self) -> Any:
        """Return the loss."""
        with torch.autocast(self.device, self.half) if self.amp else contextlib.nullcontext():
            return nn.functional.cross_entropy(self.model(self.x), self.y)

    def backward(self, loss: Any) -> None:
        """Compute all gradients."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def update(self) -> None:
        """Change the weights."""
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def whole(self) -> None:
        """Take one step."""
        self.optimizer.zero_grad(set_to_none=True)
        self.backward(self.forward())
        self.update()


def measure(
    network: Network, batch: int, precision: str, optimizer: str, device: str, steps: int
) -> dict[str, Any]:
    """Return what a network's steps take."""
    cuda = device == "cuda"
    if cuda:
        torch.cuda.empty_cache()
    step = Step(network, batch, precision, optimizer, device)
    for _ in range(3 if cuda else 1):
        step.whole()
    row: dict[str, Any] = memory(step) if cuda else {}
    times = []
    for _ in range(steps if cuda else 3):
        start = time.perf_counter()
        step.whole()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    watts = power(step) if cuda and optimizer == "sgd" else None
    return row | {"seconds": statistics.median(times), "watts": watts}


def power(step: Step) -> float | None:
    """Return the watts of the GPU while it trains."""
    words = ["nvidia-smi", "--query-gpu=power.draw", "--format=csv,noheader,nounits"]
    end = time.perf_counter() + _BUSY
    while time.perf_counter() < end:
        step.whole()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(subprocess.run, words, capture_output=True, text=True, check=False)
        while not reading.done():
            step.whole()
    torch.cuda.synchronize()
    try:
        return float(reading.result().stdout.split()[0])
    except (IndexError, ValueError):
        return None


def memory(step: Step) -> dict[str, Any]:
    """Return the allocator's counts in and after each part of a step, and the seconds of each part."""
    cuda, row = torch.cuda, {}
    step.optimizer.zero_grad(set_to_none=True)
    cuda.synchronize()
    row["rest_bytes"] = cuda.memory_allocated()

    def part(name: str, do: Any) -> Any:
        cuda.reset_peak_memory_stats()
        cuda.synchronize()
        start = time.perf_counter()
        result = do()
        cuda.synchronize()
        row[f"{name}_seconds"] = time.perf_counter() - start
        row[f"{name}_peak"], row[f"{name}_bytes"] = cuda.max_memory_allocated(), cuda.memory_allocated()
        return result

    loss = part("forward", step.forward)
    losses = [loss]
    del loss
    part("backward", lambda: step.backward(losses.pop()))
    part("update", step.update)
    row["peak_bytes"] = max(row[f"{name}_peak"] for name in ("forward", "backward", "update"))
    return row


if __name__ == "__main__":
    main()
