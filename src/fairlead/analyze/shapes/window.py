"""Shapes of operators that slide a window over an image, or resize it."""

from math import floor

from fairlead.analyze.graph import Dims, Fact
from fairlead.analyze.shapes.call import OperatorCall, UnknownShapeError, product


def _spatial(call: OperatorCall, kernel: Dims, sizes: Dims, *, ceil: bool = False) -> Dims:
    """Return the sizes after a window has slid over them."""
    rank = len(sizes)
    strides = call.ints("strides") or (1,) * rank
    dilations = call.ints("dilations") or (1,) * rank
    pads = call.ints("pads") or (0,) * (2 * rank)
    auto = call.text("auto_pad", "NOTSET")
    result: list[int | None] = []
    for place, size in enumerate(sizes):
        window, stride = kernel[place], strides[place]
        if size is None or window is None:
            result.append(None)
            continue
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            result.append(-(-size // stride))
            continue
        around = 0 if auto == "VALID" else pads[place] + pads[place + rank]
        result.append(_steps(size, around, dilations[place] * (window - 1) + 1, stride, ceil=ceil))
        if ceil and _begins_in_padding(result[-1], stride, size + pads[place]):
            result[-1] = (result[-1] or 0) - 1
    return tuple(result)


def _steps(size: int, around: int, reach: int, stride: int, *, ceil: bool) -> int:
    free = size + around - reach
    if free < 0:
        raise UnknownShapeError
    return (-(-free // stride) if ceil else free // stride) + 1


def _begins_in_padding(count: int | None, stride: int, limit: int) -> bool:
    return count is not None and (count - 1) * stride >= limit


def _last(call: OperatorCall) -> bool:
    """Say whether channels come last, as in some of ONNX Runtime's own operators."""
    return bool(call.integer("channels_last"))


def conv(call: OperatorCall) -> list[Fact]:
    """Shape a convolution."""
    return [_conv(call, call.args[0], 1)]


def q_conv(call: OperatorCall) -> list[Fact]:
    """Shape a convolution of quantised values: each has a scale and a zero point."""
    return [_conv(call, call.args[0], 3)]


def integer_conv(call: OperatorCall) -> list[Fact]:
    """Shape a convolution of integers that keeps every bit."""
    return [Fact("int32", _conv(call, call.args[0], 1).dims)]


def _conv(call: OperatorCall, image: Fact | None, weights: int) -> Fact:
    dims, kernel = call.dims(0), call.dims(weights)
    if image is None or len(kernel) < 3:
        raise UnknownShapeError
    if call.op.endswith("NhwcConv") or _last(call):
        window = kernel[1:-1] if call.op.endswith("NhwcConv") else kernel[2:]
        return Fact(image.dtype, (dims[0], *_spatial(call, window, dims[1:-1]), kernel[0]))
    return Fact(image.dtype, (dims[0], kernel[0], *_spatial(call, kernel[2:], dims[2:])))


def conv_transpose(call: OperatorCall) -> list[Fact]:
    """Shape a transposed convolution."""
    dims, kernel = call.dims(0), call.dims(1)
    channels = None if kernel[1] is None else kernel[1] * call.integer("group", 1)
    sizes, window, rank = dims[2:], kernel[2:], len(dims) - 2
    strides = call.ints("strides") or (1,) * rank
    dilations = call.ints("dilations") or (1,) * rank
    more = call.ints("output_padding") or (0,) * rank
    pads = call.ints("pads") or (0,) * (2 * rank)
    result: list[int | None] = list(call.ints("output_shape")[-rank:])
    if not result:
        same = call.text("auto_pad", "NOTSET").startswith("SAME")
        for place, (size, reach) in enumerate(zip(sizes, window, strict=True)):
            if size is None or reach is None:
                result.append(None)
            elif same:
                result.append(size * strides[place])
            else:
                far = strides[place] * (size - 1) + more[place] + dilations[place] * (reach - 1) + 1
                result.append(far - pads[place] - pads[place + rank])
    return [Fact(call.arg(0).dtype, (dims[0], channels, *result))]


def deform_conv(call: OperatorCall) -> list[Fact]:
    """Shape a deformable convolution, whose third input offsets the window."""
    dims, kernel, offsets = call.dims(0), call.dims(1), call.dims(2)
    return [Fact(call.arg(0).dtype, (dims[0], kernel[0], *offsets[2:]))]


def pool(call: OperatorCall) -> list[Fact]:
    """Shape a pool over windows, and the indices of its elements."""
    dims, kernel = call.dims(0), call.ints("kernel_shape")
    ceil = bool(call.integer("ceil_mode"))
    if _last(call):
        shape = (dims[0], *_spatial(call, kernel, dims[1:-1], ceil=ceil), dims[-1])
    else:
        shape = (*dims[:2], *_spatial(call, kernel, dims[2:], ceil=ceil))
    return [Fact(call.arg(0).dtype, shape), Fact("int64", shape)]


def global_pool(call: OperatorCall) -> list[Fact]:
    """Shape a pool over the whole image."""
    dims = call.dims(0)
    ones = (1,) * (len(dims) - 2)
    shape = (dims[0], *ones, dims[-1]) if _last(call) else (*dims[:2], *ones)
    return [Fact(call.arg(0).dtype, shape)]


def unpool(call: OperatorCall) -> list[Fact]:
    """Shape the inverse of a pool."""
    dims, kernel = call.dims(0), call.ints("kernel_shape")
    if call.has(2):
        return [Fact(call.arg(0).dtype, call.values(2))]
    strides, rank = call.ints("strides") or (1,) * len(kernel), len(kernel)
    pads = call.ints("pads") or (0,) * (2 * rank)
    sizes = [
        None if size is None else (size - 1) * strides[at] + kernel[at] - pads[at] - pads[at + rank]
        for at, size in enumerate(dims[2:])
    ]
    return [Fact(call.arg(0).dtype, (*dims[:2], *sizes))]


def regions(call: OperatorCall) -> list[Fact]:
    """Shape regions of an image, all of one size."""
    rows = call.ints("pooled_shape") or (call.integer("output_height", 1), call.integer("output_width", 1))
    return [Fact(call.arg(0).dtype, (call.dims(1)[0], call.dims(0)[1], *rows))]


def resize(call: OperatorCall) -> list[Fact]:
    """Shape a resized image, by scales or by sizes."""
    dims = call.dims(0)
    axes = [axis % len(dims) for axis in call.ints("axes")] or range(len(dims))
    result = list(dims)
    scales_at = 1 if call.opset and call.opset < 11 else 2
    scales = call.numbers(scales_at) or call.floats("scales")
    if scales:
        for axis, scale in zip(axes, scales, strict=True):
            size = dims[axis]
            result[axis] = None if size is None else floor(size * scale)
    else:
        policy = call.text("keep_aspect_ratio_policy", "stretch")
        sizes = call.values(3)
        if policy != "stretch":
            pairs = [(size, dims[axis] or 1) for axis, size in zip(axes, sizes, strict=True)]
            ratios = [size / old for size, old in pairs]
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            sizes = tuple(round(old * ratio) for _, old in pairs)
        for axis, size in zip(axes, sizes, strict=True):
            result[axis] = size
    return [Fact(call.arg(0).dtype, tuple(result))]


def upsample(call: OperatorCall) -> list[Fact]:
    """Shape an enlarged image: the operator before Resize."""
    dims = call.dims(0)
    scales = call.numbers(1) or call.floats("scales")
    sizes = (None if dim is None else floor(dim * scale) for dim, scale in zip(dims, scales, strict=True))
    return [Fact(call.arg(0).dtype, tuple(sizes))]


def sampled(call: OperatorCall) -> list[Fact]:
    """Shape an image sampled at the points of a grid."""
    return [Fact(call.arg(0).dtype, (*call.dims(0)[:2], *call.dims(1)[1:-1]))]


def affine_grid(call: OperatorCall) -> list[Fact]:
    """Shape the points of a grid."""
    size = call.values(1)
    return [Fact(call.arg(0).dtype, (size[0], *size[2:], len(size) - 2))]


def to_depth(call: OperatorCall) -> list[Fact]:
    """Shape blocks of an image moved into channels."""
    batch, channels, *sizes = call.dims(0)
    block = call.integer("blocksize", 1)
    depth = None if channels is None else channels * block * block
    return [Fact(call.arg(0).dtype, (batch, depth, *(None if s is None else s // block for s in sizes)))]


def to_space(call: OperatorCall) -> list[Fact]:
    """Shape channels moved into blocks of an image."""
    batch, channels, *sizes = call.dims(0)
    block = call.integer("blocksize", 1)
    depth = None if channels is None else channels // (block * block)
    return [Fact(call.arg(0).dtype, (batch, depth, *(None if s is None else s * block for s in sizes)))]


def col_to_im(call: OperatorCall) -> list[Fact]:
    """Shape an image assembled from columns."""
    block = product(call.values(2))
    batch, rows = call.dims(0)[:2]
    if rows is None or not block:
        raise UnknownShapeError
    return [Fact(call.arg(0).dtype, (batch, rows // block, *call.values(1)))]
