"""Holdings from the kubelet's pod resources."""

from fairlead.offer import Form, Holder, Holding
from fairlead.publish.kubelet_holdings import KubeletHoldings, kubelet_holdings
from fairlead.publish.parts import short_names
from tests.accelerators import accelerator, node

GPU = accelerator("pci:0000:01:00.0", mebibytes=4096)
STICK = accelerator("usb:1-1", model="coral-usb")
NODE = node(GPU, STICK)
NAME = short_names(NODE)[GPU.id]
MAIN, SIDE = Holder("default", "web", "main"), Holder("default", "web", "side")


def test_rows_become_holdings() -> None:
    rows = [
        ("default", "web", "main", "fairlead.dev/gpu-mem", [f"{NAME}-2", f"{NAME}-0"]),
        ("default", "web", "main", "fairlead.dev/gpu-mem", [f"{NAME}-1", f"{NAME}-9"]),
        ("default", "web", "main", "fairlead.dev/coral-usb", [STICK.id]),
        ("default", "web", "side", "fairlead.dev/gpu-mem-gib", [f"{NAME}-3"]),
        ("default", "web", "side", "nvidia.com/gpu", ["GPU-1", STICK.id]),
    ]
    assert kubelet_holdings(rows, NODE).holdings == (
        Holding(GPU.id, Form.MEMORY, MAIN, 4, ((0, 2), (9, 9))),
        Holding(STICK.id, Form.WHOLE, MAIN),
        Holding(GPU.id, Form.MEMORY, SIDE, 1024, ((3, 3),)),
    )


def test_held_units_of_a_removed_accelerator_are_counted() -> None:
    rows = [
        ("default", "web", "main", "fairlead.dev/gpu-mem", [f"{NAME}-1", f"{NAME}-2"]),
        ("default", "web", "main", "fairlead.dev/coral-usb", [STICK.id]),
    ]
    assert kubelet_holdings(rows, node(STICK)) == KubeletHoldings(
        (Holding(STICK.id, Form.WHOLE, MAIN),), strays=2
    )
    assert kubelet_holdings(rows, node()).strays == 3
