"""Whether a model is the decoder of a language model, and what one run of its file is then.

A decoder runs once for each token that it generates, and its KV cache grows meanwhile. The file fixes one
run, at the shapes that it has or was bound to: figures hold for that run, and for nothing else. Pure.
"""

import re
from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from fairlead.units import pluralize
from fairlead.workload import Operator, Tensor

_CACHE: Final = re.compile(
    r"past_?(?:key|value)|kv_?cache|(?:^|[^a-z])(?:past|kv|[kv]_?cache|cache_?[kv])(?:[^a-z]|$)"
    r"|cache[^a-z]+(?:[0-9]+[^a-z]+)?(?:key|value|[kv])(?:[^a-z]|$)"
)
"""Names of inputs that hold the keys and values of earlier tokens, as exporters write them."""
_CACHE_OUT: Final = re.compile(r"(?:^|[^a-z])(?:present|new|updated)(?:[^a-z]|$)")
_TOKENS: Final = re.compile(r"(?:^|[^a-z])(?:ids?|tokens?)(?:[^a-z]|$)")
_SCORES: Final = re.compile(r"logit|lm_?head")
_FEWEST_WORDS: Final = 1000
"""No vocabulary is smaller; a classifier of tokens has fewer classes."""
_CACHE_RANK: Final = 4
"""A cache has at least batch, heads, tokens and the values of a head."""
_PAIR: Final = 2
"""A cache has keys and values, in one tensor or in two."""


def scope_of(inputs: Sequence[Tensor], outputs: Sequence[Tensor], operators: Iterable[Operator]) -> str:
    """Return in words what one run of a decoder is; empty for every other model."""
    cache, words = _cache_of(inputs, outputs), _tokens_of(inputs, outputs, operators)
    if not cache and words is None:
        return ""
    shape = [text for text in (_words(words), _cached(cache, outputs)) if text]
    shapes = f" ({', '.join(shape)})" if shape else ""
    return (
        f"one forward pass of a language model{shapes}: "
        "tokens per second and the growing KV cache are not predicted"
    )


def _cache_of(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the inputs that are a KV cache: of that name, with a length, and given back or in pairs."""
    named = [each for each in inputs if _CACHE.search(each.name.lower()) and len(each.dims) >= _CACHE_RANK]
    given_back = any(
        _CACHE_OUT.search(each.name.lower()) or _CACHE.search(each.name.lower()) for each in outputs
    )
    return named if len(named) >= _PAIR or (named and given_back) else []


def _tokens_of(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], operators: Iterable[Operator]
) -> Tensor | None:
    """Return the input of tokens of a model that scores every word of its vocabulary for a token."""
    tables = {each.params for each in operators if each.kind == "embedding" and each.params}
    for tokens in inputs:
        if not tokens.dtype.startswith(("int", "uint")) or len(tokens.dims) not in (1, 2):
            continue
        for scores in outputs:
            if _scores_words(scores, tokens, tables):
                return tokens
    return None


def _scores_words(scores: Tensor, tokens: Tensor, tables: Iterable[int]) -> bool:
    """Say whether an output has a score of each word, for each of the tokens or for the last."""
    words = scores.dims[-1] if scores.dims else None
    if not words or words < _FEWEST_WORDS or len(scores.dims) != len(tokens.dims) + 1:
        return False
    if scores.dims[-2] not in (tokens.dims[-1], 1) or scores.dims[:-2] != tokens.dims[:-1]:
        return False
    return bool(_SCORES.search(scores.name.lower())) or _is_vocabulary(words, tables)


def _is_vocabulary(words: int, tables: Iterable[int]) -> bool:
    """Say whether a table of embeddings has that number of rows: they are more than its columns.

    A number that divides a larger table is the width of its rows, as of a model that returns hidden values.
    """
    divided = [size for size in tables if size % words == 0]
    return bool(divided) and max(divided) <= words**2


def _words(tokens: Tensor | None) -> str:
    if tokens is None or None in tokens.dims:
        return ""
    *batch, length = (dim or 0 for dim in tokens.dims)
    several = f"{prod(batch)} x " if prod(batch) > 1 else ""
    return f"{several}{pluralize(length, 'token')}"


def _cached(cache: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    """Return the length of the cache: the axis that grows in the outputs, or the longest but the last."""
    if not cache:
        return ""
    dims = cache[0].dims
    grown = [each.dims for each in outputs if len(each.dims) == len(dims) and _differs_once(dims, each.dims)]
    axes = [axis for axis in range(len(dims)) if grown and dims[axis] != grown[0][axis]]
    length = dims[axes[0]] if axes else max((dim or 0 for dim in dims[1:-1]), default=0)
    return f"a KV cache of {length}" if length is not None else "a KV cache"


def _differs_once(dims: Sequence[int | None], other: Sequence[int | None]) -> bool:
    return sum(one != another for one, another in zip(dims, other, strict=True)) == 1
