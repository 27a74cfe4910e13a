"""Pages are served in a thread beside the program."""

from urllib.request import urlopen

from fairlead.serve.web.httpd import Response
from fairlead.serve.web.thread import serve_in_thread
from fairlead.settings import Address


def test_pages_are_served_while_the_context_lasts() -> None:
    with serve_in_thread(Address("127.0.0.1", 0), lambda path: Response(200, path.encode())) as where:
        for path in ("/metrics", "/healthz"):
            with urlopen(f"http://{where}{path}", timeout=5) as answer:
                assert answer.read() == path.encode()
