"""Networks to train, in PyTorch: plain, residual, depthwise, attention, U-shaped, mixing and fully connected.

All are our own, small enough to step through in a second, and unlike one another in what training keeps.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


class Unit(nn.Sequential):
    """A convolution, its norm, and an activation."""

    def __init__(
        self,
        in_: int,
        out: int,
        kernel: int = 3,
        stride: int = 1,
        groups: int = 1,
        act: nn.Module | None = None,
    ) -> None:
        conv = nn.Conv2d(in_, out, kernel, stride, kernel // 2, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(out), *([] if act is None else [act]))


def relu() -> nn.Module:
    """Return the activation of most networks: it overwrites its input."""
    return nn.ReLU(inplace=True)


class Residual(nn.Module):
    """A residual block, with a bottleneck and groups if wanted."""

    def __init__(self, in_: int, out: int, stride: int = 1, *, wide: int = 0, groups: int = 1) -> None:
        super().__init__()
        if wide:
            parts = [
                Unit(in_, wide, 1, act=relu()),
                Unit(wide, wide, 3, stride, groups, relu()),
                Unit(wide, out, 1),
            ]
        else:
            parts = [Unit(in_, out, 3, stride, act=relu()), Unit(out, out, 3)]
        self.body = nn.Sequential(*parts)
        self.shortcut = nn.Identity() if in_ == out and stride == 1 else Unit(in_, out, 1, stride)
        self.act = relu()

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum, activated."""
        return self.act(self.body(x) + self.shortcut(x))


def head(wide: int, classes: int = 1000) -> list[nn.Module]:
    """Return the end of a classifier."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, classes)]


def resnet(repeats: tuple[int, ...], *, bottleneck: bool = False, groups: int = 1) -> nn.Module:
    """Return a residual network."""
    layers: list[nn.Module] = [Unit(3, 64, 7, 2, act=relu()), nn.MaxPool2d(3, 2, 1)]
    now = 64
    for stage, count in enumerate(repeats):
        wide = 64 << stage
        for index in range(count):
            stride = 2 if stage and not index else 1
            out = wide * 4 if bottleneck else wide
            layers.append(Residual(now, out, stride, wide=wide if bottleneck else 0, groups=groups))
            now = out
    return nn.Sequential(*layers, *head(now))


def plain(*, norm: bool) -> nn.Module:
    """Return a plain stack of convolutions, as VGG's, with or without norms."""
    layers: list[nn.Module] = []
    now = 3
    for out, count in ((64, 2), (128, 2), (256, 2), (512, 2), (512, 2)):
        for _ in range(count):
            layers += [Unit(now, out, act=relu())] if norm else [nn.Conv2d(now, out, 3, padding=1), relu()]
            now = out
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 49, 1024), relu(), nn.Linear(1024, 1000))


def alex() -> nn.Module:
    """Return few large convolutions and large fully connected layers."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), relu(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), relu(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), relu(),
        nn.Conv2d(384, 256, 3, padding=1), relu(),
        nn.Conv2d(256, 256, 3, padding=1), relu(), nn.MaxPool2d(3, 2),
        nn.Flatten(), nn.Linear(256 * 36, 4096), relu(), nn.Linear(4096, 4096), relu(), nn.Linear(4096, 1000),
    )  # fmt: skip


class Squeeze(nn.Module):
    """Squeeze and excite: scale channels by what their means say."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(wide, max(8, wide // 16), 1), nn.Conv2d(max(8, wide // 16), wide, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled channels."""
        scale = functional.silu(self.down(x.mean((2, 3), keepdim=True)))
        return x * torch.sigmoid(self.up(scale))


class Inverted(nn.Module):
    """An inverted residual: expand, depthwise, project."""

    def __init__(
        self, in_: int, out: int, stride: int, grow: int, act: Callable[[], nn.Module], *, squeeze: bool
    ) -> None:
        super().__init__()
        wide = in_ * grow
        parts: list[nn.Module] = [Unit(in_, wide, 1, act=act())] if grow > 1 else []
        parts.append(Unit(wide, wide, 3, stride, wide, act()))
        parts += [Squeeze(wide)] if squeeze else []
        self.body = nn.Sequential(*parts, Unit(wide, out, 1))
        self.same = in_ == out and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result."""
        return x + self.body(x) if self.same else self.body(x)


def mobile(*, squeeze: bool) -> nn.Module:
    """Return a depthwise network: MobileNetV2's form, or EfficientNet's with SiLU and squeezes."""

    def act() -> nn.Module:
        return nn.SiLU(inplace=True) if squeeze else nn.ReLU6(inplace=True)

    layers: list[nn.Module] = [Unit(3, 32, 3, 2, act=act())]
    now = 32
    for grow, out, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for index in range(count):
            layers.append(Inverted(now, out, stride if not index else 1, grow, act, squeeze=squeeze))
            now = out
    return nn.Sequential(*layers, Unit(now, 1280, 1, act=act()), *head(1280))


class Attention(nn.Module):
    """Self-attention, written out or by PyTorch's fused function."""

    def __init__(self, wide: int, heads: int, *, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)

    def forward(self, x: Tensor) -> Tensor:
        """Attend."""
        batch, length, wide = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, self.heads, wide // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        if self.fused:
            y = functional.scaled_dot_product_attention(q, k, v)
        else:
            y = ((q * (wide // self.heads) ** -0.5) @ k.transpose(-2, -1)).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, wide))


class Block(nn.Module):
    """A transformer block, its norms first."""

    def __init__(self, wide: int, heads: int, *, fused: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.attend = Attention(wide, heads, fused=fused)
        self.mlp = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result."""
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Patches of 16 pixels, attended."""

    def __init__(self, wide: int, depth: int, heads: int, *, fused: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, wide, 16, 16)
        self.place = nn.Parameter(torch.zeros(1, 196, wide))
        self.blocks = nn.Sequential(*(Block(wide, heads, fused=fused) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(wide), nn.Linear(wide, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Classify."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.place
        return self.head(self.norm(self.blocks(x)).mean(1))


class TextTransformer(nn.Module):
    """Words, attended."""

    def __init__(self, words: int = 8000, wide: int = 512, depth: int = 6, heads: int = 8) -> None:
        super().__init__()
        self.words = nn.Embedding(words, wide)
        self.blocks = nn.Sequential(*(Block(wide, heads, fused=True) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(wide), nn.Linear(wide, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Classify a text."""
        return self.head(self.norm(self.blocks(self.words(x)))[:, 0])


class UNet(nn.Module):
    """Down and up again, with shortcuts across."""

    def __init__(self, wide: int, *, norm: bool) -> None:
        super().__init__()

        def pair(in_: int, out: int) -> nn.Module:
            if norm:
                return nn.Sequential(Unit(in_, out, act=relu()), Unit(out, out, act=relu()))
            convs = nn.Conv2d(in_, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
            return nn.Sequential(convs[0], relu(), convs[1], relu())

        sizes = [wide << level for level in range(4)]
        self.down = nn.ModuleList(pair(a, b) for a, b in zip([3, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(pair(2 * size, size) for size in reversed(sizes[:-1]))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, 2) for size in reversed(sizes[:-1]))
        self.pool, self.out = nn.MaxPool2d(2), nn.Conv2d(wide, 10, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return a class for each pixel."""
        kept = []
        for level, layer in enumerate(self.down):
            x = layer(x if not level else self.pool(x))
            kept.append(x)
        for widen, layer, side in zip(self.widen, self.up, reversed(kept[:-1]), strict=True):
            x = layer(torch.cat([widen(x), side], 1))
        return self.out(x)


class ChannelNorm(nn.Module):
    """A layer norm over the channels of images."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(wide)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised image."""
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NextBlock(nn.Module):
    """A ConvNeXt block: a large depthwise convolution, a norm, and an inverted bottleneck."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.depth = nn.Conv2d(wide, wide, 7, padding=3, groups=wide)
        self.norm = nn.LayerNorm(wide)
        self.mlp = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide))
        self.scale = nn.Parameter(torch.full((wide,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result."""
        y = self.mlp(self.norm(self.depth(x).permute(0, 2, 3, 1))) * self.scale
        return x + y.permute(0, 3, 1, 2)


def next_net() -> nn.Module:
    """Return a small ConvNeXt."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 4, 4), ChannelNorm(64)]
    for stage, count in enumerate((2, 2, 4, 2)):
        wide = 64 << stage
        if stage:
            layers += [ChannelNorm(wide // 2), nn.Conv2d(wide // 2, wide, 2, 2)]
        layers += [NextBlock(wide) for _ in range(count)]
    return nn.Sequential(*layers, *head(512))


class Dense(nn.Module):
    """A dense block: every layer reads all before it."""

    def __init__(self, in_: int, grow: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(in_ + index * grow), relu(),
                nn.Conv2d(in_ + index * grow, 4 * grow, 1, bias=False), nn.BatchNorm2d(4 * grow), relu(),
                nn.Conv2d(4 * grow, grow, 3, padding=1, bias=False),
            )
            for index in range(count)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return all maps together."""
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def dense_net() -> nn.Module:
    """Return a small DenseNet."""
    layers: list[nn.Module] = [Unit(3, 64, 7, 2, act=relu()), nn.MaxPool2d(3, 2, 1)]
    now = 64
    for index, count in enumerate((6, 8, 8, 6)):
        layers.append(Dense(now, 32, count))
        now += 32 * count
        if index < 3:
            layers += [nn.BatchNorm2d(now), relu(), nn.Conv2d(now, now // 2, 1, bias=False), nn.AvgPool2d(2)]
            now //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(now), relu(), *head(now))


def dark() -> nn.Module:
    """Return a detector's backbone: leaky activations, maps halved by strides."""
    layers: list[nn.Module] = [Unit(3, 32, 3, act=nn.LeakyReLU(0.1, inplace=True))]
    now = 32
    for out, count in ((64, 1), (128, 2), (256, 3), (512, 2)):
        layers.append(Unit(now, out, 3, 2, act=nn.LeakyReLU(0.1, inplace=True)))
        now = out
        for _ in range(count):
            layers.append(Unit(now, now // 2, 1, act=nn.LeakyReLU(0.1, inplace=True)))
            layers.append(Unit(now // 2, now, 3, act=nn.LeakyReLU(0.1, inplace=True)))
    return nn.Sequential(*layers, *head(now))


class GroupResidual(nn.Module):
    """A residual block with group norms and SiLU, as diffusion models have."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(16, wide), nn.SiLU(), nn.Conv2d(wide, wide, 3, padding=1),
            nn.GroupNorm(16, wide), nn.SiLU(), nn.Conv2d(wide, wide, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum."""
        return x + self.body(x)


def group_net() -> nn.Module:
    """Return residual blocks with group norms."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 2, 1)]
    for stage in range(3):
        layers += [GroupResidual(64 << stage), GroupResidual(64 << stage)]
        layers.append(nn.Conv2d(64 << stage, 128 << stage, 3, 2, 1))
    return nn.Sequential(*layers, *head(512))


class MixBlock(nn.Module):
    """A mixer block: one perceptron over places, one over channels."""

    def __init__(self, places: int, wide: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.places = nn.Sequential(nn.Linear(places, wide // 2), nn.GELU(), nn.Linear(wide // 2, places))
        self.channels = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result."""
        x = x + self.places(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    """A network of perceptrons over patches."""

    def __init__(self, wide: int = 384, depth: int = 8) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, wide, 16, 16)
        self.blocks = nn.Sequential(*(MixBlock(196, wide) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(wide), nn.Linear(wide, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Classify."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


class Recurrent(nn.Module):
    """Two layers of LSTM over words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5000, 256)
        self.cells = nn.LSTM(256, 512, 2, batch_first=True)
        self.head = nn.Linear(512, 100)

    def forward(self, x: Tensor) -> Tensor:
        """Classify a text."""
        y: Tensor = self.head(self.cells(self.words(x))[0][:, -1])
        return y
