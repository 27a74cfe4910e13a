"""Probe a program's health endpoint, from inside its network namespace if need be.

Run as `python -I -S probe.py URL` inside a node's network namespace: it exits with 0 if healthy.
"""

import http.client
import ssl
import sys
import urllib.parse

_PATIENCE = 5.0


def is_healthy(url: str) -> bool:
    """Return whether a program responds with 200. A self-signed certificate is accepted."""
    parts = urllib.parse.urlsplit(url)
    where = f"{parts.hostname}:{parts.port}"
    connection = http.client.HTTPConnection(where, timeout=_PATIENCE)
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(where, timeout=_PATIENCE, context=context)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if is_healthy(sys.argv[1]) else 1)
