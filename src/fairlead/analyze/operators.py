"""Every known operator: its kind, and the rule for its output shapes.

One literal table. An operator that is missing here is kept with the shape that the file declares for it, and
marked as not exact. Operators of ONNX Runtime's own domain are listed without it, except where ONNX has
another operator of that name.
"""

from typing import Final

from fairlead.analyze.shapes import matrix, move, pointwise, reduce, window
from fairlead.analyze.shapes.call import Rule
from fairlead.dataflow import VIEWS

__all__ = [
    "NON_PARAMETERS",
    "NO_OPS",
    "ONNX",
    "PARTIAL_READS",
    "RANDOM",
    "SOFTMAX",
    "TFLITE",
    "VIEWS",
    "look_up",
    "non_parameters",
]

_RUNTIME: Final = "com.microsoft."


def _kind(kind: str, rule: Rule, names: str) -> dict[str, tuple[str, Rule]]:
    return dict.fromkeys(names.split(), (kind, rule))


ONNX: Final[dict[str, tuple[str, Rule]]] = {
    **_kind("conv", window.conv, "Conv FusedConv NhwcConv NhwcFusedConv"),
    **_kind("conv", window.q_conv, "QLinearConv"),
    **_kind("conv", window.integer_conv, "ConvInteger"),
    **_kind("conv", window.conv_transpose, "ConvTranspose ConvTransposeWithDynamicPads"),
    **_kind("conv", window.deform_conv, "DeformConv"),
    **_kind("matmul", matrix.matmul, "MatMul FusedMatMul TransposeMatMul GemmFastGelu FusedMatMulActivation"),
    **_kind("matmul", matrix.integer_matmul, "MatMulInteger MatMulInteger16"),
    **_kind("matmul", matrix.float_from_integers, "MatMulIntegerToFloat DynamicQuantizeMatMul"),
    **_kind("matmul", matrix.q_matmul, "QLinearMatMul"),
    **_kind("matmul", matrix.packed_matmul, "MatMulNBits MatMulFpQ4 MatMulBnb4"),
    **_kind("matmul", matrix.gemm, "Gemm FusedGemm GemmFloat8"),
    **_kind("matmul", matrix.q_gemm, "QGemm"),
    **_kind("matmul", matrix.einsum, "Einsum"),
    **_kind("attention", matrix.attention, "Attention"),
    **_kind("attention", matrix.packed_attention, "com.microsoft.Attention QAttention"),
    **_kind("attention", matrix.multi_head_attention, "MultiHeadAttention DecoderMaskedMultiHeadAttention"),
    **_kind("attention", matrix.group_query_attention, "GroupQueryAttention"),
    **_kind("recurrent", matrix.recurrent, "LSTM GRU RNN DynamicQuantizeLSTM"),
    **_kind("embedding", matrix.embed_norm, "EmbedLayerNormalization"),
    **_kind(
        "activation",
        pointwise.same,
        "Relu LeakyRelu ThresholdedRelu Elu Selu Celu Sigmoid HardSigmoid Tanh Softplus Softsign HardSwish "
        "Mish Gelu FastGelu QuickGelu BiasGelu Swish Shrink Clip Erf Softmax LogSoftmax Hardmax BiasSoftmax "
        "QLinearSigmoid QLinearLeakyRelu QLinearSoftmax",
    ),
    **_kind("activation", pointwise.broadcast_inputs, "PRelu"),
    **_kind(
        "elementwise",
        pointwise.same,
        "Abs Neg Exp Log Sqrt Reciprocal Floor Ceil Round Sign Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh "
        "Acosh Atanh Not BitwiseNot CumSum RotaryEmbedding com.microsoft.RotaryEmbedding BiasAdd CumProd "
        "Inverse",
    ),
    **_kind(
        "elementwise",
        pointwise.broadcast_inputs,
        "Add Sub Mul Div Pow Mod Max Min Sum Mean And Or Xor BitShift BitwiseAnd BitwiseOr BitwiseXor "
        "ComplexMul ComplexMulConj",
    ),
    **_kind("elementwise", pointwise.compared, "Equal Greater GreaterOrEqual Less LessOrEqual"),
    **_kind("elementwise", pointwise.same_bool, "IsNaN IsInf"),
    **_kind("elementwise", pointwise.where, "Where"),
    **_kind("elementwise", pointwise.q_binary, "QLinearAdd QLinearMul"),
    **_kind("elementwise", pointwise.typed, "Bernoulli"),
    **_kind("elementwise", pointwise.cast, "Cast BitCast"),
    **_kind("elementwise", pointwise.cast_like, "CastLike"),
    **_kind("elementwise", pointwise.quantised, "QuantizeLinear"),
    **_kind("elementwise", pointwise.dequantised, "DequantizeLinear"),
    **_kind("elementwise", pointwise.dynamically_quantised, "DynamicQuantizeLinear"),
    **_kind("norm", pointwise.batch_norm, "BatchNormalization"),
    **_kind(
        "norm",
        pointwise.same,
        "InstanceNormalization GroupNormalization GroupNorm LpNormalization MeanVarianceNormalization LRN",
    ),
    **_kind("norm", pointwise.normalised, "LayerNormalization RMSNormalization SimplifiedLayerNormalization"),
    **_kind(
        "norm", pointwise.skip_norm, "SkipLayerNormalization SkipSimplifiedLayerNormalization SkipGroupNorm"
    ),
    **_kind("pool", window.pool, "MaxPool AveragePool LpPool QLinearAveragePool NhwcMaxPool"),
    **_kind(
        "pool", window.global_pool, "GlobalAveragePool GlobalMaxPool GlobalLpPool QLinearGlobalAveragePool"
    ),
    **_kind("pool", window.unpool, "MaxUnpool"),
    **_kind("pool", window.regions, "RoiAlign MaxRoiPool"),
    **_kind(
        "reduce",
        reduce.reduced,
        "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
        "ReduceSumSquare QLinearReduceMean",
    ),
    **_kind("reduce", reduce.arg_reduced, "ArgMax ArgMin"),
    **_kind("reduce", reduce.top_k, "TopK"),
    **_kind("resize", window.resize, "Resize"),
    **_kind("resize", window.upsample, "Upsample"),
    **_kind("resize", window.sampled, "GridSample"),
    **_kind("resize", window.affine_grid, "AffineGrid"),
    **_kind("move", pointwise.same, "Identity ReverseSequence Trilu"),
    **_kind("move", pointwise.same, "Scatter ScatterElements ScatterND TensorScatter"),
    **_kind("move", pointwise.dropout, "Dropout"),
    **_kind("move", move.reshape, "Reshape"),
    **_kind("move", move.flatten, "Flatten"),
    **_kind("move", move.squeeze, "Squeeze"),
    **_kind("move", move.unsqueeze, "Unsqueeze"),
    **_kind("move", move.transpose, "Transpose"),
    **_kind("move", move.concat, "Concat"),
    **_kind("move", move.split, "Split"),
    **_kind("move", move.slice_, "Slice"),
    **_kind("move", move.pad, "Pad"),
    **_kind("move", move.tile, "Tile"),
    **_kind("move", move.expand, "Expand"),
    **_kind("move", move.gather, "Gather"),
    **_kind("move", move.gather_elements, "GatherElements"),
    **_kind("move", move.gather_nd, "GatherND"),
    **_kind("move", move.one_hot, "OneHot"),
    **_kind("move", move.range_, "Range"),
    **_kind("move", move.filled, "ConstantOfShape"),
    **_kind("move", move.eye, "EyeLike"),
    **_kind("move", move.shape, "Shape"),
    **_kind("move", move.count, "Size"),
    **_kind("move", move.crop_pad, "CenterCropPad"),
    **_kind("move", window.to_depth, "SpaceToDepth"),
    **_kind("move", window.to_space, "DepthToSpace"),
    **_kind("move", window.col_to_im, "Col2Im"),
    **_kind("move", reduce.compress, "Compress"),
    **_kind("other", reduce.non_zero, "NonZero"),
    **_kind("other", reduce.non_max, "NonMaxSuppression"),
    **_kind("other", reduce.unique, "Unique"),
    **_kind("other", reduce.determinant, "Det"),
    **_kind("other", reduce.fourier, "DFT"),
    **_kind("other", reduce.short_fourier, "STFT"),
    **_kind("other", reduce.window, "HannWindow HammingWindow BlackmanWindow"),
    **_kind("other", move.random, "RandomNormal RandomUniform RandomNormalLike RandomUniformLike"),
}


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


def _kinds(**names: str) -> dict[str, str]:
    return {name: kind for kind, listed in names.items() for name in listed.split()}


TFLITE: Final = _kinds(
    conv="CONV_2D CONV_3D TRANSPOSE_CONV CONV_3D_TRANSPOSE STABLEHLO_CONVOLUTION "
    "custom.Convolution2DTransposeBias",
    depthwise="DEPTHWISE_CONV_2D",
    matmul="FULLY_CONNECTED BATCH_MATMUL STABLEHLO_DOT_GENERAL",
    recurrent="tflite.LSTM tflite.RNN SVDF UNIDIRECTIONAL_SEQUENCE_LSTM UNIDIRECTIONAL_SEQUENCE_RNN "
    "BIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_RNN",
    embedding="EMBEDDING_LOOKUP EMBEDDING_LOOKUP_SPARSE",
    activation="LOGISTIC RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 TANH SOFTMAX LOG_SOFTMAX PRELU LEAKY_RELU ELU "
    "HARD_SWISH GELU STABLEHLO_LOGISTIC STABLEHLO_TANH STABLEHLO_CLAMP",
    elementwise="ADD SUB MUL DIV ADD_N MAXIMUM MINIMUM POW SQUARE SQRT RSQRT EXP LOG SIN COS ABS NEG "
    "FLOOR CEIL ROUND SIGN FLOOR_DIV FLOOR_MOD SQUARED_DIFFERENCE LESS LESS_EQUAL GREATER "
    "GREATER_EQUAL EQUAL NOT_EQUAL LOGICAL_AND LOGICAL_OR LOGICAL_NOT SELECT SELECT_V2 CAST "
    "BITCAST QUANTIZE DEQUANTIZE FAKE_QUANT ATAN2 BITWISE_XOR RIGHT_SHIFT CUMSUM "
    "STABLEHLO_ADD STABLEHLO_SUBTRACT STABLEHLO_MULTIPLY STABLEHLO_DIVIDE STABLEHLO_MAXIMUM "
    "STABLEHLO_MINIMUM STABLEHLO_POWER STABLEHLO_RSQRT STABLEHLO_EXPONENTIAL STABLEHLO_LOG "
    "STABLEHLO_NEGATE STABLEHLO_ABS STABLEHLO_COSINE STABLEHLO_FLOOR STABLEHLO_REMAINDER "
    "STABLEHLO_SELECT STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_AND STABLEHLO_OR "
    "STABLEHLO_CBRT STABLEHLO_SHIFT_LEFT",
    norm="L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION",
    pool="AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D REDUCE_WINDOW STABLEHLO_REDUCE_WINDOW",
    reduce="MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL ARG_MAX ARG_MIN TOPK_V2 "
    "SEGMENT_SUM UNSORTED_SEGMENT_SUM UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD "
    "STABLEHLO_REDUCE",
    resize="RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR",
    move="CONCATENATION RESHAPE SQUEEZE EXPAND_DIMS PAD PADV2 MIRROR_PAD TRANSPOSE SLICE STRIDED_SLICE SPLIT "
    "SPLIT_V PACK UNPACK TILE BROADCAST_TO GATHER GATHER_ND SCATTER_ND ONE_HOT SPARSE_TO_DENSE DENSIFY FILL "
    "RANGE ZEROS_LIKE SHAPE RANK REVERSE_V2 REVERSE_SEQUENCE DEPTH_TO_SPACE SPACE_TO_DEPTH BATCH_TO_SPACE_ND "
    "SPACE_TO_BATCH_ND DYNAMIC_UPDATE_SLICE DILATE STABLEHLO_RESHAPE STABLEHLO_TRANSPOSE STABLEHLO_SLICE "
    "STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_CONCATENATE STABLEHLO_PAD "
    "STABLEHLO_GATHER STABLEHLO_SCATTER STABLEHLO_BROADCAST_IN_DIM STABLEHLO_IOTA",
    control="IF WHILE CALL_ONCE",
)

NO_OPS: Final = frozenset(("Identity", "Dropout"))
"""Operators that no runtime executes."""

SOFTMAX: Final = _names("Softmax LogSoftmax Hardmax BiasSoftmax SOFTMAX LOG_SOFTMAX QLinearSoftmax")
"""Activations that read a whole row."""

RANDOM: Final = _names(
    "RandomNormal RandomUniform RandomNormalLike RandomUniformLike Bernoulli Multinomial RANDOM_UNIFORM "
    "RANDOM_STANDARD_NORMAL MULTINOMIAL"
)
"""Operators whose output changes from run to run, even on constants."""

PARTIAL_READS: Final = _names(
    "Gather GatherElements GatherND Slice Split GATHER GATHER_ND SLICE STRIDED_SLICE SPLIT SPLIT_V "
    "EMBEDDING_LOOKUP STABLEHLO_SLICE STABLEHLO_DYNAMIC_SLICE STABLEHLO_GATHER"
)
"""Operators that read no more of their first input than they write."""

NON_PARAMETERS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear", "DEQUANTIZE", "QUANTIZE"), (1, 2)),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul"), (1, 2, 4, 5, 6, 7)),
    **dict.fromkeys(("ConvInteger", "MatMulInteger"), (2, 3)),
    **dict.fromkeys(("Clip", "Pad", "Resize", "Upsample"), (1, 2, 3)),
    **dict.fromkeys(("Gather", "GATHER", "GatherElements", "GatherND"), (1,)),
    "QGemm": (1, 2, 4, 5, 7, 8),
    "QAttention": (3, 4, 6, 7),
    "MatMulNBits": (2, 3, 4),
    "MatMulIntegerToFloat": (2, 3, 4, 5),
    "DynamicQuantizeMatMul": (2, 3),
    "BatchNormalization": (3, 4),
    "TRANSPOSE_CONV": (0,),
}
"""Constant inputs that are not parameters: scales, statistics, indices and shapes."""


def non_parameters(op: str) -> tuple[int, ...]:
    """Return the inputs of an operator that are not parameters."""
    return NON_PARAMETERS.get(op.removeprefix(_RUNTIME), ())


def look_up(op: str) -> tuple[str, Rule | None] | None:
    """Return an operator's kind and shape rule, or None where it is not known."""
    entry = ONNX.get(op) or ONNX.get(op.removeprefix(_RUNTIME))
    if entry is None and op in TFLITE:
        return TFLITE[op], None
    return entry
