"""Turn what breaks between us and the server into our errors."""

import ssl

import aiohttp

from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.http.api_errors import READS, RequestInfo
from fairlead.compat.aio import TIMEOUTS
from fairlead.errors import ClusterUnavailableError

_CUT = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError, ConnectionError)
_AGAIN = "try again; if it stays so, look at the server"
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)


def was_disconnected(error: Exception) -> bool:
    """Say whether a connection that stood broke: another may do."""
    return isinstance(error, _CUT) and not isinstance(error, _NEVER_SENT)


def connection_error(error: Exception, asked: RequestInfo, config: ClusterConfig) -> ClusterUnavailableError:
    """Return our error for one of aiohttp's, or for a timeout."""
    what, hint = _words(error, config)
    ours = ClusterUnavailableError(f"{what} (on {asked})", hint)
    ours.maybe_done = asked.verb not in READS and not isinstance(error, _NEVER_SENT)
    return ours


def _words(error: Exception, config: ClusterConfig) -> tuple[str, str]:
    """Return what is wrong, and what to do."""
    server = config.server
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return _untrusted(error, config)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"{server}: no such host: {_reason(error)}", f"correct the server of {config.display_name}"
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        what = f"the proxy before {server} does not let us through: {error}"
        return what, "check proxy-url and HTTPS_PROXY"
    if isinstance(error, aiohttp.ClientConnectorError):
        what = f"nothing answers at {server}: {_reason(error)}"
        return what, f"is the cluster up, and is {config.display_name} the one you mean?"
    if isinstance(error, TIMEOUTS):
        return f"{server} did not answer in time", "is the cluster up, and does a firewall stand between?"
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"the answer of {server} was cut short", _AGAIN
    return f"the connection to {server} broke: {_reason(error)}", _AGAIN


def _untrusted(error: Exception, config: ClusterConfig) -> tuple[str, str]:
    why = getattr(error, "certificate_error", error)
    if not isinstance(why, ssl.SSLCertVerificationError):
        what = f"no TLS with {config.server}: {_reason(error)}"
        return what, f"does {config.display_name} name the right port, and https?"
    return (
        f"{config.server} shows a certificate that cannot be trusted: {why.verify_message}",
        f"check certificate-authority(-data) and tls-server-name of {config.display_name}",
    )


def _reason(error: Exception) -> str:
    inner = getattr(error, "os_error", error)
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
