"""Which proxy leads to a server: the kubeconfig's own, else the environment's. Pure."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from fairlead.cluster.config.types import ClusterConfig
from fairlead.errors import KubeconfigError


def find_proxy(config: ClusterConfig, env: Mapping[str, str]) -> str | None:
    """Return the proxy to go through, or None."""
    parts = urlsplit(config.server)
    host = parts.hostname or ""
    found, said_by = config.proxy, f"{config.display_name}: proxy-url"
    if not found and not is_loopback(host) and not _excepted(host, _either(env, "no_proxy")):
        name = f"{parts.scheme}_proxy"
        found, said_by = _either(env, name), name.upper()
    if found and urlsplit(found).scheme not in ("http", "https"):
        raise KubeconfigError(
            f"{said_by} {_bare(found)!r} is not an HTTP proxy",
            hint="SOCKS is not supported: name an http:// proxy, or tunnel to the server yourself",
        )
    return found or None


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _either(env: Mapping[str, str], name: str) -> str:
    return env.get(name) or env.get(name.upper()) or ""


def _bare(url: str) -> str:
    """Return a URL without the password that may stand in it."""
    return f"{urlsplit(url).scheme}://{urlsplit(url).hostname or ''}"


def _excepted(host: str, exceptions: str) -> bool:
    return any(_matches(host, part.strip()) for part in exceptions.split(",") if part.strip())


def _matches(host: str, exception: str) -> bool:
    if exception == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(exception, strict=False)
    except ValueError:
        suffix = exception.lstrip("*").lstrip(".").lower()
        return host == suffix or host.endswith(f".{suffix}")
