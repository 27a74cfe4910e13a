"""Read one page of a pod: HTTP or HTTPS, bounded in size and time, no redirects, no proxy."""

import asyncio
import ssl
from typing import Final

from fairlead.reconcile import PodPage

LONGEST: Final = 1 << 20
"""Bytes of a page."""
WITHIN: Final = 2.0
"""Seconds from the connection to the last byte."""
_HEAD: Final = 16 << 10


async def read_page(page: PodPage, within: float = WITHIN) -> tuple[bytes, str]:
    """Return the body of a page, and why it could not be read: one of them is empty."""
    try:
        async with asyncio.timeout(within):
            return await _read(page)
    except TimeoutError:
        return b"", f"no answer within {within:g}s"
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        return b"", str(error) or type(error).__name__


async def _read(page: PodPage) -> tuple[bytes, str]:
    host = f"[{page.address}]" if ":" in page.address else page.address
    # HTTP/1.0: the server ends the body with the connection, and never sends it in chunks.
    token = f"Authorization: Bearer {page.token}\r\n" if page.token else ""
    request = f"GET {page.path} HTTP/1.0\r\nHost: {host}:{page.port}\r\n{token}Connection: close\r\n\r\n"
    tls, name = (_trust(page.authority), page.server_name) if page.authority else (None, None)
    reader, writer = await asyncio.open_connection(
        page.address, page.port, limit=_HEAD, ssl=tls, server_hostname=name
    )
    try:
        writer.write(request.encode("ascii"))
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status = head.split("\r\n", 1)[0].split(" ", 2)
        if len(status) < 2 or not status[0].startswith("HTTP/1.") or status[1] != "200":
            return b"", f"it answered {' '.join(status)[:80]!r}"
        return await _body(reader)
    finally:
        writer.close()


def _trust(authority: str) -> ssl.SSLContext:
    """Return a context that trusts one authority; ValueError where the text is none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=authority)
    return context


async def _body(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    body = bytearray()
    while part := await reader.read(_HEAD):
        body += part
        if len(body) > LONGEST:
            return b"", f"it is larger than {LONGEST} bytes"
    return bytes(body), ""
