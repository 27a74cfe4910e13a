"""What is served below the reserved path: the jobs, and the join protocol where devices may join."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.store.credentials import Credentials, secret_of
from fairlead.store.jobs.handler import PREFIX, JobsHandler
from fairlead.store.refusal import RefusedError
from fairlead.store.uploads import RequestBody

Reply = tuple[str, list[tuple[str, str]], bytes]


@dataclass(frozen=True, slots=True)
class ReservedPaths:
    """Answers requests below the reserved path; each part authenticates its own."""

    jobs: JobsHandler
    join: Callable[[str, dict[str, Any], RequestBody], Reply] | None
    credentials: Credentials

    def __call__(self, path: str, environ: dict[str, Any], body: RequestBody) -> Reply:
        """Return status, headers and body of an answer."""
        if path == PREFIX or path.startswith(f"{PREFIX}/"):
            return self.jobs(path, environ, body)
        if self.join is not None:
            return self.join(path, environ, body)
        if self.credentials.accepts(secret_of(environ.get("HTTP_AUTHORIZATION", ""))) is None:
            raise RefusedError(401, "a credential is needed", (("WWW-Authenticate", "Bearer"),))
        raise RefusedError(404, "this path is reserved, and nothing is served there")
