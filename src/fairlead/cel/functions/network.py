"""Kubernetes' functions of IP addresses, networks (CIDR) and URLs."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface, ip_network
from typing import Any, ClassVar, Final
from urllib.parse import unquote_plus

from fairlead.cel.errors import EvaluationError
from fairlead.cel.evaluate.values import NO_OVERLOAD, Map
from fairlead.cel.functions.operators import traversal_cost
from fairlead.cel.functions.table import Overload, overload

_LONGEST: Final = 64
"""The most characters of an address."""
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST: Final = re.compile(r"\[[0-9A-Za-z:.%_-]*\](?::[0-9]*)?|[^\[\]/?#\s<>\"^`{|}\\]*")
_PREFIX: Final = re.compile(r"([^/]+)/(0|[1-9][0-9]{0,2})", re.ASCII)
_UNESCAPED_PATH: Final = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]]*")


@dataclass(frozen=True, slots=True)
class IP:
    """An address."""

    address: IPv4Address | IPv6Address
    kind_name: ClassVar[str] = "net.IP"

    @property
    def cost_size(self) -> int:
        """Its bytes."""
        return len(self.address.packed)


@dataclass(frozen=True, slots=True)
class CIDR:
    """A network: an address, and the length of its prefix in bits."""

    address: IPv4Address | IPv6Address
    bits: int
    kind_name: ClassVar[str] = "net.CIDR"

    @property
    def cost_size(self) -> int:
        """The bytes of its prefix."""
        return -(-self.bits // 8)

    def masked(self) -> "CIDR":
        """Return the network with the bits after its prefix cleared."""
        return CIDR(ip_network(f"{self.address}/{self.bits}", strict=False).network_address, self.bits)

    def contains(self, address: IPv4Address | IPv6Address) -> bool:
        """Return whether an address is in the network."""
        if address.version != self.address.version:
            return False
        return bool(address in ip_network(f"{self.address}/{self.bits}", strict=False))


@dataclass(frozen=True, slots=True)
class Url:
    """A URL."""

    scheme: str
    host: str
    path: str
    query: str
    rest: str = ""
    kind_name: ClassVar[str] = "kubernetes.URL"


def _address(text: str) -> IPv4Address | IPv6Address:
    try:
        if len(text) > _LONGEST:
            raise ValueError
        address = ip_address(text)
    except ValueError:
        raise EvaluationError(
            f'IP Address "{text[:_LONGEST]}" parse error during conversion from string: unable to parse IP'
        ) from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _show(address: IPv4Address | IPv6Address) -> str:
    return str(address)


def _cidr(text: str) -> CIDR:
    wrong = EvaluationError(
        "network address parse error during conversion from string: network address parse error during "
        f'conversion from string: netip.ParsePrefix("{text[:_LONGEST]}"): unable to parse'
    )
    match = _PREFIX.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or "%" in text:
        raise wrong
    try:
        address, bits = ip_interface(match[1]).ip, int(match[2])
    except ValueError:
        raise wrong from None
    if bits > address.max_prefixlen:
        raise wrong
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return CIDR(address, bits)


def _read_argument(read: Any, text: str) -> Any:
    try:
        return read(text)
    except EvaluationError:
        # Kubernetes passes the error on as if it were the address.
        raise EvaluationError(NO_OVERLOAD) from None


def _predicate(read: Any) -> Any:
    def test(text: str) -> bool:
        try:
            read(text)
        except EvaluationError:
            return False
        return True

    return test


def _link_local_multicast(value: IP) -> bool:
    if isinstance(value.address, IPv4Address):
        return value.address in ip_network("224.0.0.0/24")
    return value.address.packed[0] == 0xFF and value.address.packed[1] & 0x0F == 2


def _link_local_unicast(value: IP) -> bool:
    if isinstance(value.address, IPv4Address):
        return value.address in ip_network("169.254.0.0/16")
    return value.address in ip_network("fe80::/10")


def _global_unicast(value: IP) -> bool:
    """Return Go's answer: neither unspecified, loopback, multicast, link-local nor broadcast."""
    address = value.address
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or _link_local_unicast(value)
        or str(address) == "255.255.255.255"
    )


def _contains_cidr(one: CIDR, other: CIDR) -> bool:
    return one.bits <= other.bits and one.contains(other.address)


def _url_fault(text: str, why: str) -> EvaluationError:
    return EvaluationError(f'URL parse error during conversion from string: parse "{text[:_LONGEST]}": {why}')


def parse_url(text: str) -> Url:
    """Read an absolute URL or path, as Go's `ParseRequestURI` and `Parse` do together."""
    if not text:
        raise _url_fault(text, "empty url")
    if any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in text):
        raise _url_fault(text, "net/url: invalid control character in URL")
    whole, _, _fragment = text.partition("#")
    match = _SCHEME.match(whole)
    scheme, rest = (match[1].lower(), whole[match.end() :]) if match else ("", whole)
    if not scheme and ":" in rest.partition("/")[0]:
        raise _url_fault(
            text,
            "first path segment in URL cannot contain colon" if rest[0] != ":" else "missing protocol scheme",
        )
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, "", "", query, rest)
        raise _url_fault(text, "invalid URI for request")
    host, path = "", rest
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        host, slash, after = rest[2:].partition("/")
        path = slash + after
        host = _authority(text, host)
    if _BAD_ESCAPE.search(path):
        raise _url_fault(text, "invalid URL escape")
    return Url(scheme, host, path, query)


def _authority(text: str, authority: str) -> str:
    host = authority.rpartition("@")[2]
    if not _HOST.fullmatch(host):
        raise _url_fault(text, f'invalid character in host name "{host[:_LONGEST]}"')
    name, colon, port = host.rpartition(":")
    if colon and "]" not in port and port and not port.isdecimal():
        raise _url_fault(text, f'invalid port ":{port[:_LONGEST]}" after host')
    if ":" in name and not name.startswith("["):
        raise _url_fault(text, f'invalid port ":{port[:_LONGEST]}" after host')
    return host


def _hostname(value: Url) -> str:
    if value.host.startswith("["):
        return value.host[1:].partition("]")[0]
    return value.host.partition(":")[0]


def _port(value: Url) -> str:
    rest = value.host.rpartition("]")[2]
    return rest.partition(":")[2]


def _path(value: Url) -> str:
    if _UNESCAPED_PATH.fullmatch(re.sub(r"%[0-9A-Fa-f]{2}", "", value.path)):
        return value.path
    return "".join(
        letter
        if _UNESCAPED_PATH.fullmatch(letter) or letter == "%"
        else "".join(f"%{byte:02X}" for byte in letter.encode())
        for letter in value.path
    )


def _query(url: Url) -> Map:
    query: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        key, _, value = pair.partition("=")
        query.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return Map((key, tuple(values)) for key, values in query.items())


def _length_cost(text: Any, *_: Any) -> int:
    return traversal_cost(len(text)) if isinstance(text, str) else 1


def _network_cost(network: Any, other: Any) -> int:
    return traversal_cost(2 * network.cost_size) + (
        traversal_cost(len(other)) if isinstance(other, str) else 0
    )


OVERLOADS: Final[list[Overload]] = [
    overload("ip(string) ip", lambda text: IP(_address(text)), _length_cost),
    overload(".ip.family() int", lambda value: value.address.version),
    overload("ip.isCanonical(string) bool", lambda text: _show(_address(text)) == text, _length_cost),
    overload(".ip.isUnspecified() bool", lambda value: value.address.is_unspecified),
    overload(".ip.isLoopback() bool", lambda value: value.address.is_loopback),
    overload(".ip.isLinkLocalMulticast() bool", _link_local_multicast),
    overload(".ip.isLinkLocalUnicast() bool", _link_local_unicast),
    overload(".ip.isGlobalUnicast() bool", _global_unicast),
    overload("isIP(string) bool", _predicate(_address), _length_cost),
    overload("string(ip) string", lambda value: _show(value.address)),
    overload("cidr(string) cidr", _cidr, _length_cost),
    overload(
        ".cidr.containsIP(string) bool",
        lambda network, text: network.contains(_read_argument(_address, text)),
        _network_cost,
    ),
    overload(
        ".cidr.containsIP(ip) bool", lambda network, value: network.contains(value.address), _network_cost
    ),
    overload(
        ".cidr.containsCIDR(string) bool",
        lambda network, text: _contains_cidr(network, _read_argument(_cidr, text)),
        _network_cost,
    ),
    overload(".cidr.containsCIDR(cidr) bool", _contains_cidr, _network_cost),
    overload(".cidr.ip() ip", lambda value: IP(value.address)),
    overload(".cidr.prefixLength() int", lambda value: value.bits),
    overload(".cidr.masked() cidr", lambda value: value.masked()),
    overload("isCIDR(string) bool", _predicate(_cidr), _length_cost),
    overload("string(cidr) string", lambda value: f"{_show(value.address)}/{value.bits}"),
    overload("url(string) url", parse_url, _length_cost),
    overload(".url.getScheme() string", lambda value: value.scheme),
    overload(".url.getHost() string", lambda value: value.host),
    overload(".url.getHostname() string", _hostname),
    overload(".url.getPort() string", _port),
    overload(".url.getEscapedPath() string", _path),
    overload(".url.getQuery() map(string,list(string))", _query),
    overload("isURL(string) bool", _predicate(parse_url), _length_cost),
]
