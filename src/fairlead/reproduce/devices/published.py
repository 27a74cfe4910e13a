"""Published latencies and statements about MobileNet and Inception on small accelerators.

The study that began it (Reza et al. 2021, DOI 10.1007/978-3-030-76063-2_23) compares MobileNetV1, MobileNetV2
and InceptionV3 on a Jetson TX2, a Jetson Nano and an Edge TPU. Of its tables none is at hand, only the order
that the paper of the accelerator monitor takes from it. The latencies are other public figures for one input.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

USB3, USB2, TX2, NANO = "coral-usb@usb3", "coral-usb@usb2", "jetson-tx2", "jetson-nano"
BOARDS: Final = (USB3, USB2, TX2, NANO)
NETWORKS: Final = ("mobilenet_v1", "mobilenet_v2", "inception_v3", "resnet50")


@dataclass(frozen=True, slots=True)
class PublishedLatency:
    """A latency of one input."""

    milliseconds: float
    source: str


@dataclass(frozen=True, slots=True)
class PublishedOrder:
    """Which device the paper names, and those that it is compared with."""

    network: str
    first: str
    others: tuple[str, ...]

    @property
    def words(self) -> str:
        """The statement, for people."""
        return f"{self.network}: {self.first} before {', '.join(self.others)}"


_CORAL, _CORAL_PI = "pycoral, Xeon with USB 3", "pycoral, Raspberry Pi 3B+ with USB 2"
_TENSORRT, _TORCH2TRT = "TensorRT, fp16", "torch2trt, fp16"
LATENCIES: Final[Mapping[str, Mapping[str, PublishedLatency]]] = {
    "mobilenet_v1": {
        USB3: PublishedLatency(2.17, _CORAL),
        USB2: PublishedLatency(9.0, _CORAL_PI),
        TX2: PublishedLatency(12.9, _TENSORRT),
    },
    "mobilenet_v2": {USB3: PublishedLatency(2.29, _CORAL), USB2: PublishedLatency(10.6, _CORAL_PI)},
    "inception_v3": {TX2: PublishedLatency(26.3, _TENSORRT)},
    "resnet50": {TX2: PublishedLatency(15.7, _TENSORRT), NANO: PublishedLatency(29.8, _TORCH2TRT)},
}
"""By network and device; what is missing has no public figure that is known here."""
ORDERS: Final = (
    PublishedOrder("mobilenet_v1", USB3, (TX2, NANO)),
    PublishedOrder("mobilenet_v2", USB3, (TX2, NANO)),
    PublishedOrder("inception_v3", NANO, (USB3,)),
    PublishedOrder("inception_v3", NANO, (TX2,)),
    PublishedOrder("inception_v3", USB3, (USB2,)),
)
"""Edge TPU first for the MobileNets, Nano first for InceptionV3, and the link of the Edge TPU matters."""
