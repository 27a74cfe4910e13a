"""The calibration pack: small models that together do every kind of work that networks do.

None is a published network. Each consists mainly of one kind of work, so that a device's speed at every kind
can be measured, and all are small, so that a slow board finishes in a minute.
"""

from fairlead.zoo.attention import encoder, perceptron
from fairlead.zoo.build import Net
from fairlead.zoo.dense import residual
from fairlead.zoo.graph import NetGraph, NetValue
from fairlead.zoo.mobile import separable, squeeze


def plain(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Only dense 3x3 convolutions, from large images with few channels to small ones with many."""
    net = Net("plain", dtype)
    x = net.input(batch, 3, 192, 192)
    for wide in (32, 64, 128, 256, 512):
        x = net.unit(net.unit(x, wide, 3), wide, 3, 2)
    return net.graph(net.mean(x))


def points(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Pointwise convolutions: matrix products over an image."""
    net = Net("points", dtype)
    x = net.unit(net.input(batch, 3, 128, 128), 64, 4, 4)
    for wide in (128, 128, 256, 256):
        x = net.unit(x, wide)
    x = net.pool(x, 2, 2)
    for wide in (512, 512, 512):
        x = net.unit(x, wide)
    x = net.pool(x, 2, 2)
    for wide in (1024, 1024):
        x = net.unit(x, wide)
    return net.graph(net.mean(x))


def depthwise(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Depthwise convolutions, with as little work between them as possible."""
    net = Net("depthwise", dtype)
    x = net.unit(net.input(batch, 3, 160, 160), 48, 3, 2)
    for window, stride in ((3, 1), (5, 1), (3, 2), (3, 1), (5, 2), (3, 1), (3, 1), (5, 1)):
        x = net.unit(x, x.shape[1], window, stride, groups=x.shape[1], act="relu6")
        x = net.unit(x, 144 if stride == 1 else 192, act="relu6")
    return net.graph(net.mean(x))


def ladder(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Separable blocks with squeeze and excite: many kinds of small operators."""
    net = Net("ladder", dtype)
    x = net.unit(net.input(batch, 3, 192, 192), 24, 3, 2, act="silu")
    for out, stride in ((48, 2), (48, 1), (96, 2), (96, 1), (96, 1), (192, 2), (192, 1), (192, 1)):
        inner = separable(net, net.unit(x, 3 * x.shape[1], act="silu"), out, stride, "silu")
        inner = squeeze(net, inner, out // 8)
        x = net.add(x, inner) if x.shape == inner.shape else inner
    return net.graph(net.linear(net.mean(x), 100))


def shortcuts(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Residual blocks and their bottlenecks: additions between dense convolutions."""
    net = Net("shortcuts", dtype)
    x = net.pool(net.unit(net.input(batch, 3, 256, 256), 32, 7, 2), 3, 2, 1)
    for out, stride in ((32, 1), (64, 2)):
        x = residual(net, x, out, stride)
    for out, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)):
        x = residual(net, x, out, stride, bottleneck=True)
    return net.graph(net.linear(net.mean(x), 100))


def branches(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Branches of pools and convolutions, concatenated with the input of their block."""
    net = Net("branches", dtype)
    x = net.pool(net.unit(net.input(batch, 3, 160, 160), 48, 5, 2), 3, 2)
    for _ in range(6):
        x = net.concat(
            x,
            net.unit(net.unit(x, 32), 32, 3),
            net.unit(net.unit(x, 16), 32, (1, 5)),
            net.unit(net.pool(x, 3, 1, 1, kind="Average"), 16),
        )
    return net.graph(net.linear(net.mean(net.pool(x, 2, 2)), 100))


def columns(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Large matrices that are used once: how fast memory delivers weights."""
    net = Net("columns", dtype)
    x = net.input(batch, 1024)
    for wide in (3072, 1536, 1536, 1024):
        x = net.act(net.linear(x, wide), "relu")
    return net.graph(net.linear(x, 100))


def sentence(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Attention over a short sequence: a transformer."""
    net = Net("sentence", dtype)
    x = net.input(batch, 128, 256)
    for _ in range(6):
        x = encoder(net, x, 4)
    return net.graph(net.layer_norm(x))


def mixer(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Perceptrons across positions, then across channels: products, transposes and smooth activations."""
    net = Net("mixer", dtype)
    x = net.input(batch, 144, 192)
    for _ in range(6):
        mixed = perceptron(net, net.transpose(net.layer_norm(x), 0, 2, 1), 288)
        x = net.add(x, net.transpose(mixed, 0, 2, 1))
        x = net.add(x, perceptron(net, net.layer_norm(x), 384))
    return net.graph(net.layer_norm(x))


def hourglass(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Downsample and upsample with skip connections: large images, resizing, little arithmetic."""
    net = Net("hourglass", dtype)
    x = net.unit(net.input(batch, 3, 128, 128), 32, 3)
    skips: list[NetValue] = []
    for wide in (64, 96, 128):
        skips.append(x)
        x = net.unit(net.pool(x, 2, 2), wide, 3)
    for skip in reversed(skips):
        x = net.unit(net.concat(net.upsample(x, 2), skip), skip.shape[1], 3)
    return net.graph(net.act(net.conv(x, 1, bias=True), "sigmoid"))


def thread(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Two hundred operators with little work: the cost of launching one."""
    net = Net("thread", dtype)
    x = net.unit(net.input(batch, 3, 16, 16), 16, 3, 2)
    for _ in range(25):
        inner = net.act(net.conv(net.unit(x, 16, 3), 16), "sigmoid")
        x = net.mul(net.add(x, inner), inner)
    return net.graph(net.mean(x))
