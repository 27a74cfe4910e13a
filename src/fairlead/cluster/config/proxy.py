"""The proxy of a server: the kubeconfig's own, else the environment's. Pure."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from fairlead.cluster.config.types import ClusterConfig
from fairlead.errors import KubeconfigError


def find_proxy(config: ClusterConfig, env: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy, or None for a direct connection."""
    parts = urlsplit(config.server)
    host = parts.hostname or ""
    proxy, source = config.proxy, f"{config.display_name}: proxy-url"
    if not proxy and not is_loopback(host) and not _is_exempt(host, _either_case(env, "no_proxy")):
        name = f"{parts.scheme}_proxy"
        proxy, source = _either_case(env, name), name.upper()
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise KubeconfigError(
            f"{source} {_without_password(proxy)!r} is not an HTTP proxy",
            hint="SOCKS is not supported: name an http:// proxy, or tunnel to the server yourself",
        )
    return proxy or None


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _either_case(env: Mapping[str, str], name: str) -> str:
    return env.get(name) or env.get(name.upper()) or ""


def _without_password(url: str) -> str:
    """Return a URL without the password that it may contain."""
    return f"{urlsplit(url).scheme}://{urlsplit(url).hostname or ''}"


def _is_exempt(host: str, exceptions: str) -> bool:
    return any(_matches(host, part.strip()) for part in exceptions.split(",") if part.strip())


def _matches(host: str, exception: str) -> bool:
    if exception == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(exception, strict=False)
    except ValueError:
        suffix = exception.lstrip("*").lstrip(".").lower()
        return host == suffix or host.endswith(f".{suffix}")
