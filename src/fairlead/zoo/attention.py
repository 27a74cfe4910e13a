"""Networks of attention: a vision transformer and its blocks."""

from math import sqrt

from fairlead.zoo.build import Net
from fairlead.zoo.graph import NetGraph, NetValue


def vit_tiny(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """ViT-Ti/16 at 224 pixels, the network of DeiT-tiny (Touvron et al. 2020)."""
    net = Net("vit_tiny", dtype)
    x = _patches(net, net.input(batch, 3, 224, 224), 192, 16)
    for _ in range(12):
        x = encoder(net, x, 3)
    x = net.layer_norm(x)
    first = net.op("Gather", (batch, x.shape[2]), x, net.index(0), axis=1)
    return net.graph(net.linear(first, 1000))


def encoder(net: Net, x: NetValue, heads: int) -> NetValue:
    """Add a transformer block: attention, then a perceptron, each with a residual connection."""
    x = net.add(x, _attention(net, net.layer_norm(x), heads))
    return net.add(x, perceptron(net, net.layer_norm(x), 4 * x.shape[-1]))


def perceptron(net: Net, x: NetValue, wide: int) -> NetValue:
    """Widen the last axis, activate, and narrow it again."""
    return net.linear(net.act(net.linear(x, wide), "gelu"), x.shape[-1])


def _attention(net: Net, x: NetValue, heads: int) -> NetValue:
    batch, length, wide = x.shape
    head = wide // heads
    parts = net.transpose(net.reshape(net.linear(x, 3 * wide), batch, length, 3, heads, head), 2, 0, 3, 1, 4)
    queries, keys, values = (
        net.op("Gather", (batch, heads, length, head), parts, net.index(part), axis=0) for part in range(3)
    )
    scores = net.matmul(net.mul(queries, net.constant(value=1 / sqrt(head))), net.transpose(keys, 0, 1, 3, 2))
    mixed = net.transpose(net.matmul(net.softmax(scores), values), 0, 2, 1, 3)
    return net.linear(net.reshape(mixed, batch, length, wide), wide)


def _patches(net: Net, x: NetValue, wide: int, side: int) -> NetValue:
    """Turn an image into a sequence of patches, with a class token before it."""
    x = net.conv(x, wide, side, side, pad=0, bias=True)
    batch, _, height, width = x.shape
    x = net.transpose(net.reshape(x, batch, wide, height * width), 0, 2, 1)
    token = net.op(
        "Expand", (batch, 1, wide), net.noise(1, 1, wide, deviation=0.02), net.integers(batch, 1, wide)
    )
    x = net.concat(token, x, axis=1)
    return net.add(x, net.noise(1, *x.shape[1:], deviation=0.02))
