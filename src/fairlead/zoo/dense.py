"""Networks of dense convolutions: ResNet and Inception."""

from fairlead.zoo.build import Net
from fairlead.zoo.graph import NetGraph, NetValue


def resnet18(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """ResNet-18 at 224 pixels (He et al. 2015)."""
    return _resnet(Net("resnet18", dtype), batch, (2, 2, 2, 2), bottleneck=False)


def resnet50(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """ResNet-50 at 224 pixels, the stride in its 3x3 convolutions (v1.5)."""
    return _resnet(Net("resnet50", dtype), batch, (3, 4, 6, 3), bottleneck=True)


def inception_v3(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Inception v3 at 299 pixels, without its auxiliary output (Szegedy et al. 2015)."""
    net = Net("inception_v3", dtype)
    x = _stem(net, net.input(batch, 3, 299, 299))
    for pooled in (32, 64, 64):
        x = _inception_a(net, x, pooled)
    x = net.concat(
        _narrowing(net, x, 384),
        _narrowing(net, net.unit(net.unit(x, 64), 96, 3), 96),
        net.pool(x, 3, 2),
    )
    for wide in (128, 160, 160, 192):
        x = _inception_c(net, x, wide)
    x = net.concat(
        _narrowing(net, net.unit(x, 192), 320),
        _narrowing(net, net.unit(net.unit(net.unit(x, 192), 192, (1, 7)), 192, (7, 1)), 192),
        net.pool(x, 3, 2),
    )
    for _ in range(2):
        x = _inception_e(net, x)
    return net.graph(net.linear(net.mean(x), 1000))


def residual(net: Net, x: NetValue, out: int, stride: int = 1, *, bottleneck: bool = False) -> NetValue:
    """Add a residual block; a bottleneck is four times as wide at its end."""
    wide = out * 4 if bottleneck else out
    if bottleneck:
        inner = net.unit(net.unit(net.unit(x, out), out, 3, stride), wide, act="")
    else:
        inner = net.unit(net.unit(x, out, 3, stride), out, 3, act="")
    shortcut = x if x.shape == inner.shape else net.unit(x, wide, 1, stride, act="")
    return net.act(net.add(inner, shortcut), "relu")


def _resnet(net: Net, batch: int, repeats: tuple[int, ...], *, bottleneck: bool) -> NetGraph:
    x = net.pool(net.unit(net.input(batch, 3, 224, 224), 64, 7, 2), 3, 2, 1)
    for stage, count in enumerate(repeats):
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            x = residual(net, x, 64 << stage, stride, bottleneck=bottleneck)
    return net.graph(net.linear(net.mean(x), 1000))


def _narrowing(net: Net, x: NetValue, out: int, stride: int = 2) -> NetValue:
    """Convolve without padding, which shrinks the image."""
    return net.act(net.norm(net.conv(x, out, 3, stride, pad=0)), "relu")


def _stem(net: Net, x: NetValue) -> NetValue:
    x = _narrowing(net, _narrowing(net, x, 32), 32, 1)
    x = net.pool(net.unit(x, 64, 3), 3, 2)
    return net.pool(_narrowing(net, net.unit(x, 80), 192, 1), 3, 2)


def _inception_a(net: Net, x: NetValue, pooled: int) -> NetValue:
    return net.concat(
        net.unit(x, 64),
        net.unit(net.unit(x, 48), 64, 5),
        net.unit(net.unit(net.unit(x, 64), 96, 3), 96, 3),
        net.unit(net.pool(x, 3, 1, 1, kind="Average"), pooled),
    )


def _inception_c(net: Net, x: NetValue, wide: int) -> NetValue:
    double = net.unit(net.unit(net.unit(x, wide), wide, (7, 1)), wide, (1, 7))
    return net.concat(
        net.unit(x, 192),
        net.unit(net.unit(net.unit(x, wide), wide, (1, 7)), 192, (7, 1)),
        net.unit(net.unit(double, wide, (7, 1)), 192, (1, 7)),
        net.unit(net.pool(x, 3, 1, 1, kind="Average"), 192),
    )


def _inception_e(net: Net, x: NetValue) -> NetValue:
    single = net.unit(x, 384)
    double = net.unit(net.unit(x, 448), 384, 3)
    return net.concat(
        net.unit(x, 320),
        net.unit(single, 384, (1, 3)),
        net.unit(single, 384, (3, 1)),
        net.unit(double, 384, (1, 3)),
        net.unit(double, 384, (3, 1)),
        net.unit(net.pool(x, 3, 1, 1, kind="Average"), 192),
    )
