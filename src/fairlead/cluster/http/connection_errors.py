"""Turn aiohttp's connection errors and timeouts into ClusterUnavailableError."""

import ssl

import aiohttp

from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.http.api_errors import READS, RequestInfo
from fairlead.compat.aio import TIMEOUTS
from fairlead.errors import ClusterUnavailableError

_DISCONNECTED = (
    aiohttp.ServerDisconnectedError,
    aiohttp.ClientOSError,
    aiohttp.ClientPayloadError,
    ConnectionError,
)
_TRY_AGAIN = "try again; if it fails again, check the server"
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)


def was_disconnected(error: Exception) -> bool:
    """Return whether an established connection broke: a new one may succeed."""
    return isinstance(error, _DISCONNECTED) and not isinstance(error, _NEVER_SENT)


def connection_error(error: Exception, info: RequestInfo, config: ClusterConfig) -> ClusterUnavailableError:
    """Return the error of this program for one of aiohttp's, or for a timeout."""
    what, hint = describe(error, config)
    unavailable = ClusterUnavailableError(f"{what} (on {info})", hint)
    unavailable.maybe_done = info.verb not in READS and not isinstance(error, _NEVER_SENT)
    return unavailable


def describe(error: Exception, config: ClusterConfig) -> tuple[str, str]:
    """Return what is wrong, and what to do."""
    server = config.server
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return _describe_tls(error, config)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"{server}: no such host: {_reason(error)}", f"correct the server of {config.display_name}"
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        what = f"the proxy before {server} refuses the connection: {error}"
        return what, "check proxy-url and HTTPS_PROXY"
    if isinstance(error, aiohttp.ClientConnectorError):
        what = f"nothing answers at {server}: {_reason(error)}"
        return what, f"check that the cluster is up, and that {config.display_name} is the right one"
    if isinstance(error, TIMEOUTS):
        return f"{server} did not answer in time", "check that the cluster is up and no firewall blocks it"
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"the response of {server} ended early", _TRY_AGAIN
    return f"the connection to {server} broke: {_reason(error)}", _TRY_AGAIN


def _describe_tls(error: Exception, config: ClusterConfig) -> tuple[str, str]:
    why = getattr(error, "certificate_error", error)
    if not isinstance(why, ssl.SSLCertVerificationError):
        what = f"no TLS with {config.server}: {_reason(error)}"
        return what, f"check the port of {config.display_name}, and that it uses https"
    return (
        f"{config.server} presents a certificate that is not trusted: {why.verify_message}",
        f"check certificate-authority(-data) and tls-server-name of {config.display_name}",
    )


def _reason(error: Exception) -> str:
    inner = getattr(error, "os_error", error)
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
