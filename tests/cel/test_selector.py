"""Device selectors: each library, each kind of error, and the limits on a hostile expression."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.cel import CelDevice, CompileError, EvaluationError, compile_selector
from fairlead.cel.evaluate.activation import MAX_COST

DEVICE = CelDevice.of(
    "gpu.dev",
    {
        "attributes": {
            "model": {"string": "t4"},
            "cores": {"int": 40},
            "ok": {"bool": True},
            "version": {"version": "1.2.3-rc.1"},
            "tags": {"strings": ["a", "b"]},
        },
        "capacity": {"memory": {"value": "16Gi"}},
    },
)
A = 'device.attributes["gpu.dev"]'

TRUE = [
    f"{A}.cores > 20 && {A}.model == 't4' && !({A}.model in ['a', 'b'])",
    f"{A}.cores / 7 == 5 && -{A}.cores % 7 == -5 && {A}.cores * 1 - 1 == 39",
    "device.driver == 'gpu.dev' || device.allowMultipleAllocations",
    "'gpu.dev' in device.attributes && !('x' in device.attributes) && device.attributes.size() == 1",
    "!has(device.attributes['x'].y) && !('y' in device.attributes['x'])",
    f"has({A}.ok) ? {A}.ok : false",
    "device.attributes['x'].?y.orValue(3) == 3 && !device.attributes['x'][?'y'].hasValue()",
    f"optional.of({A}.cores).optMap(x, x + 1).value() == 41 && !optional.ofNonZeroValue(0).hasValue()",
    f"cel.bind(d, {A}, d.ok && d.model == 't4')",
    "device.capacity['gpu.dev'].memory.compareTo(quantity('8Gi')) == 1",
    "quantity('1Ki').add(24).asInteger() == 1048 && sign(quantity('-1')) == -1 && !isQuantity('x')",
    f"{A}.version.isLessThan(semver('1.2.3')) && {A}.version.minor() == 2 && isSemver('v1', true)",
    "'abc'.substring(1) == 'bc' && 'a,b'.split(',') == ['a', 'b'] && 'A'.lowerAscii() == 'a'",
    "'x'.replace('x', 'yy').charAt(1) == 'y' && ' a '.trim() == 'a' && ['a', 'b'].join('-') == 'a-b'",
    "'%s %d %.1f'.format(['a', 1, 2.0]) == 'a 1 2.0' && strings.quote('a') == '\"a\"'",
    "'t4'.matches('^t[0-9]$') && 'ab1'.find('[0-9]') == '1' && 'a1b2'.findAll('[0-9]', 1) == ['1']",
    "[3, 1].sort() == [1, 3] && [1, 2].sum() == 3 && [1, 2].max() == 2 && [1, 2].isSorted()",
    "[1, 2, 1].lastIndexOf(1) == 2 && [[1], [2]].flatten() == [1, 2] && [1, 1].distinct() == [1]",
    "['b', 'a'].sortBy(x, x) == ['a', 'b'] && lists.range(3).slice(1, 3) == [1, 2]",
    f"{A}.tags.includes('a') && {A}.tags.exists(t, t == 'b') && {A}.tags.all(t, t < 'c')",
    "sets.contains([1, 2], [1]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
    "ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && ip.isCanonical('::1') && !isIP('x')",
    "cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.1.0.0/16').prefixLength() == 16",
    "url('https://a.b:80/x?q=1').getPort() == '80' && url('https://a.b').getHost() == 'a.b' && !isURL('x')",
    "!format.dns1123Label().validate('a-b').hasValue() && format.uuid().validate('x').hasValue()",
    "[1, 2].map(x, x * 2) == [2, 4] && [1, 2].filter(x, x > 1) == [2] && [1, 2].exists_one(x, x > 1)",
    "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && [5].transformList(i, v, i + v) == [5]",
    "timestamp('2024-02-29T12:00:00Z').getDate() == 29 && duration('90m') == duration('1h30m')",
    "string(1.5) + string(1) + string(true) == '1.51true' && int('7') == 7 && double('1') == 1.0",
    "1 < 2.5 && 1u <= 1 && dyn(1) == dyn(1.0) && 'a' < 'b' && b'a' < b'b' && type(1) == int",
    "1 / 0 == 1 || true",
    "!(1 / 0 == 1 && false)",
    "[1, 2].exists(x, x / 0 == 1 || x == 2)",
    "r'\\d' == '\\\\d' && '''a'b''' == \"a'b\" && '\\u0041\\x42\\103' == 'ABC' && b'\\xff'.size() == 1",
    "device.`driver` == 'gpu.dev' // a comment",
]


@pytest.mark.parametrize("text", TRUE)
def test_an_expression_matches(text: str) -> None:
    assert compile_selector(text).matches(DEVICE)
    assert not compile_selector(f"!({text}\n)").matches(DEVICE)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("devic.driver == 'x'", 1, 1, "undeclared reference to 'devic'"),
        ("true &&\n  nothing('x')", 2, 10, "undeclared reference to 'nothing'"),
        ("device.name == 'x'", 1, 7, "undefined field 'name'"),
        ("device.driver > 3", 1, 15, "found no matching overload for '_>_' applied to '(string, int)'"),
        ("'a'.contains(1)", 1, 13, "found no matching overload for 'contains' applied to 'string.(int)'"),
        ("1.0 == 1", 1, 5, "found no matching overload for '_==_' applied to '(double, int)'"),
        ("'a' && true", 1, 1, "expected type 'bool' but found 'string'"),
        ("[1, 'a'].size() == 2", 1, 5, "expected type 'int' but found 'string'"),
        ("device.driver", 1, 1, "must evaluate to bool or the unknown type, not string"),
        ("device.driver.x == 1", 1, 14, "type 'string' does not support field selection"),
        ("device.driver.all(x, x)", 1, 7, "cannot be range of a comprehension"),
        ("'a'.matches('(')", 1, 13, "invalid matches argument"),
        ("duration('x') == duration('1s')", 1, 10, "invalid duration argument"),
        ("'%d'.format(['x']) == ''", 1, 14, "decimal clause can only be used on integers"),
        ("device.driver ==", 1, 17, "Syntax error: mismatched input '<EOF>'"),
        ("a $ b", 1, 3, "token recognition error"),
        ("if == 1", 1, 1, "reserved identifier: if"),
        ("has(device)", 1, 5, "invalid argument to has() macro"),
        ("[1].map(1, 2) == [2]", 1, 9, "argument is not an identifier"),
        ("9223372036854775808 == 1", 1, 1, "invalid int literal"),
        ("", 1, 1, "mismatched input '<EOF>'"),
    ],
)
def test_an_expression_does_not_compile(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_selector(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert message in caught.value.message
    assert str(caught.value) == f"{caught.value.line}:{caught.value.column}: {caught.value.message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{A}.nothing == 1", "no such key: nothing"),
        ("device.attributes['x'].y", "no such key: y"),
        (f"{A}.model > 3", "no such overload"),
        (f"{A}.version == '1.2.3'", "no such overload"),
        (f"{A}.model", "CEL result of type string could not be converted to bool"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("[1][2] == 1", "index out of bounds: 2"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("1 / 0 == 1 && true", "division by zero"),
        ("quantity('x').isInteger()", "quantities must match the regular expression"),
        ("lists.range(2000000).size() == 1", "actual cost limit exceeded"),
    ],
)
def test_an_expression_fails_on_a_device(text: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        compile_selector(text).matches(DEVICE)
    assert message in str(caught.value)


DOUBLED = "".join(f"cel.bind(a{n + 1}, [a{n}, a{n}], " for n in range(60))
HOSTILE = [
    "lists.range(99999).all(x, lists.range(99999).all(y, x + y >= 0))",
    f"cel.bind(a0, [1, 1], {DOUBLED} a60 == a60{')' * 61}",
    f"cel.bind(a0, [1, 1], {DOUBLED} '%s'.format([a60]) == ''{')' * 61}",
    "lists.range(20000).distinct().size() == 1",
    "cel.bind(s, lists.range(900).map(x, 'aaaaaaaaaa').join(), s.replace('', s).replace('', s).size() == 1)",
    "lists.range(9000).map(x, 'a').join().matches('(a*)*(a*)*(a*)*b')",
    "quantity('1e-500').isLessThan(quantity('1e500')) && quantity('1e2000000000').isInteger()",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_expression_ends(text: str) -> None:
    """Each would run for hours without the limit: it either ends below the limit, or is cancelled."""
    try:
        assert compile_selector(text).matches(DEVICE) in (True, False)
    except EvaluationError as error:
        assert "cost limit" in str(error) or "quantity" in str(error)  # noqa: PT017  # either way is right


def test_costs_are_counted_like_cel_go() -> None:
    # Each loop costs its range and the comparison of its elements: the limit lies between the two.
    small, large = (f"lists.range({count}).all(x, x >= 0)" for count in (MAX_COST // 20, MAX_COST // 4))
    assert compile_selector(small).matches(DEVICE)
    with pytest.raises(EvaluationError, match="cost limit"):
        compile_selector(large).matches(DEVICE)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "true" + ")" * 5000,
        "!" * 9000 + "true",
        "[" * 5000,
        "true" + " == true" * 1200,
        "a" + ".a" * 4000,
        "cel.bind(x, {1: 1}, " + "cel.bind(x, {x: x}, " * 90 + "true" + ")" * 91,
        "optional.of(1)" + ".optMap(x, x)" * 240 + ".hasValue()",
        "'" + "a" * 11000 + "' == ''",
    ],
)
def test_a_large_expression_is_rejected_or_compiled(text: str) -> None:
    try:
        compile_selector(text)
    except CompileError as error:
        assert error.message  # noqa: PT017  # either way is right


def test_a_long_expression_is_rejected() -> None:
    with pytest.raises(CompileError, match="longer than 10240 bytes"):
        compile_selector(f"{' ' * 10240}true")


WORDS = st.sampled_from(
    [
        *(
            "device",
            ".",
            "attributes",
            "driver",
            "capacity",
            '["gpu.dev"]',
            "model",
            "cores",
            "memory",
            "tags",
        ),
        *("(", ")", "[", "]", "{", "}", ",", ":", "?", "!", "-", "+", "*", "/", "%", "<", ">=", "==", "in"),
        *("&&", "||", "1", "0u", "2.5", "'a'", "b'a'", "true", "null", "x", "has(", ".all(x,", ".map(x,"),
        *("cel.bind(x,", "quantity('1')", "semver('1.0.0')", ".?", "[?", "optional.of(", ".orValue(", " "),
        *(".size()", ".matches('a')", "int(", "string(", "ip('::1')", "duration('1s')", "lists.range(3)"),
        *(".sum()", ".format([", "timestamp('2024-01-01T00:00:00Z')", ".sort()", "9223372036854775807"),
    ]
)


@given(st.one_of(st.lists(WORDS, max_size=14).map("".join), st.text(max_size=30)))
@settings(max_examples=400, deadline=None)
def test_every_expression_ends_in_a_result_or_an_error(text: str) -> None:
    try:
        assert compile_selector(text).matches(DEVICE) in (True, False)
    except (CompileError, EvaluationError) as error:
        assert str(error)  # noqa: PT017  # either way is right


def test_a_selector_is_compiled_once() -> None:
    assert compile_selector("device.driver == 'once'") is compile_selector("device.driver == 'once'")
