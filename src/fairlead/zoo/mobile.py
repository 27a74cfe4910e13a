"""Networks of depthwise convolutions: MobileNet, a detector on top of it, EfficientNet."""

from fairlead.zoo.build import Net
from fairlead.zoo.graph import NetGraph, NetValue

_V1 = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
"""Channels and stride of each block."""
_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, repeats and stride of each stage."""
_B0 = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
"""The same, and the size of the window."""
_EXTRA = ((256, 512), (128, 256), (128, 256), (64, 128))
"""The detector's own layers: channels of the narrow and of the wide convolution."""
_CLASSES, _ANCHORS = 91, (3, 6, 6, 6, 6, 6)


def mobilenet_v1(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """MobileNet 1.0 at 224 pixels (Howard et al. 2017)."""
    net = Net("mobilenet_v1", dtype)
    x = _v1_body(net, net.input(batch, 3, 224, 224))[-1]
    return net.graph(net.softmax(net.linear(net.mean(x), 1000)))


def ssd_mobilenet_v1(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """SSD on MobileNet at 300 pixels, 91 classes, up to boxes and scores: no suppression of overlaps."""
    net = Net("ssd_mobilenet_v1", dtype)
    blocks = _v1_body(net, net.input(batch, 3, 300, 300))
    maps = [blocks[10], blocks[12]]
    for narrow, wide in _EXTRA:
        maps.append(net.unit(net.unit(maps[-1], narrow, act="relu6"), wide, 3, 2, act="relu6"))
    boxes = [_head(net, x, anchors, 4) for x, anchors in zip(maps, _ANCHORS, strict=True)]
    scores = [_head(net, x, anchors, _CLASSES) for x, anchors in zip(maps, _ANCHORS, strict=True)]
    return net.graph(net.concat(*boxes), net.act(net.concat(*scores), "sigmoid"))


def mobilenet_v2(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """MobileNetV2 1.0 at 224 pixels (Sandler et al. 2018)."""
    net = Net("mobilenet_v2", dtype)
    x = net.unit(net.input(batch, 3, 224, 224), 32, 3, 2, act="relu6")
    for expansion, out, repeats, stride in _V2:
        for index in range(repeats):
            x = _inverted(net, x, out, expansion, stride if index == 0 else 1)
    x = net.unit(x, 1280, act="relu6")
    return net.graph(net.linear(net.mean(x), 1000))


def efficientnet_b0(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """EfficientNet-B0 at 224 pixels (Tan and Le 2019)."""
    net = Net("efficientnet_b0", dtype)
    x = net.unit(net.input(batch, 3, 224, 224), 32, 3, 2, act="silu")
    for expansion, out, repeats, stride, window in _B0:
        for index in range(repeats):
            x = _squeezed(net, x, out, expansion, stride if index == 0 else 1, window)
    x = net.unit(x, 1280, act="silu")
    return net.graph(net.linear(net.mean(x), 1000))


def separable(net: Net, x: NetValue, out: int, stride: int = 1, act: str = "relu") -> NetValue:
    """Add a depthwise and a pointwise convolution."""
    channels = x.shape[1]
    return net.unit(net.unit(x, channels, 3, stride, groups=channels, act=act), out, act=act)


def squeeze(net: Net, x: NetValue, narrow: int) -> NetValue:
    """Scale each channel by a gate computed from all channels: squeeze and excite."""
    pooled = net.op("GlobalAveragePool", (*x.shape[:2], 1, 1), x)
    inner = net.act(net.conv(pooled, narrow, bias=True), "silu")
    return net.mul(x, net.act(net.conv(inner, x.shape[1], bias=True), "sigmoid"))


def _v1_body(net: Net, x: NetValue) -> list[NetValue]:
    x = net.unit(x, 32, 3, 2, act="relu6")
    blocks = []
    for out, stride in _V1:
        x = separable(net, x, out, stride, "relu6")
        blocks.append(x)
    return blocks


def _head(net: Net, x: NetValue, anchors: int, figures: int) -> NetValue:
    """Predict `figures` numbers for each anchor box of each point, as rows."""
    x = net.transpose(net.conv(x, anchors * figures, bias=True), 0, 2, 3, 1)
    batch, height, width, _ = x.shape
    return net.reshape(x, batch, height * width * anchors, figures)


def _inverted(net: Net, x: NetValue, out: int, expansion: int, stride: int) -> NetValue:
    inner, wide = x, x.shape[1] * expansion
    if expansion > 1:
        inner = net.unit(inner, wide, act="relu6")
    inner = net.unit(inner, wide, 3, stride, groups=wide, act="relu6")
    inner = net.unit(inner, out, act="")
    return net.add(x, inner) if inner.shape == x.shape else inner


def _squeezed(net: Net, x: NetValue, out: int, expansion: int, stride: int, window: int) -> NetValue:
    inner, wide = x, x.shape[1] * expansion
    if expansion > 1:
        inner = net.unit(inner, wide, act="silu")
    inner = net.unit(inner, wide, window, stride, groups=wide, act="silu")
    inner = net.unit(squeeze(net, inner, max(1, x.shape[1] // 4)), out, act="")
    return net.add(x, inner) if inner.shape == x.shape else inner
