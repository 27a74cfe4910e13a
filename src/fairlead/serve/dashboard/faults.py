"""Answers that are not 200: what is wrong, where, and what to do next."""

from collections.abc import Mapping

from starlette.responses import Response

from fairlead.dashboard.answers import ErrorAnswer, ErrorDetail, encode

_NONE: Mapping[str, str] = {}


class ApiFault(Exception):  # noqa: N818 - an answer, as the API names it
    """Raised by a handler; the server answers with it."""

    def __init__(
        self, status: int, what: str, where: str = "", hint: str = "", headers: Mapping[str, str] = _NONE
    ) -> None:
        super().__init__(what)
        self.status = status
        self.what, self.where, self.hint = what, where, hint
        self.headers = headers

    def response(self) -> Response:
        """Return the answer."""
        body = ErrorAnswer(error=ErrorDetail(what=self.what, where=self.where, next=self.hint))
        return Response(encode(body), self.status, dict(self.headers), "application/json")
