"""WsgiDAV as the part of the store that answers everything but GET, HEAD and PUT; and its locks, for PUT."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from wsgidav import util
from wsgidav.dav_error import DAVError, get_http_status_string
from wsgidav.error_printer import ErrorPrinter
from wsgidav.lock_man.lock_storage import LockStorageDict
from wsgidav.mw.base_mw import BaseMiddleware
from wsgidav.request_server import RequestServer
from wsgidav.wsgidav_app import WsgiDAVApp

from fairlead.store.contents import Contents
from fairlead.store.credentials import CredentialHolder
from fairlead.store.dav.provider import DeadProperties, StoreProvider
from fairlead.store.properties import Properties
from fairlead.store.refusal import RefusedError

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
METHODS: Final = frozenset(
    ("OPTIONS", "PROPFIND", "PROPPATCH", "MKCOL", "DELETE", "COPY", "MOVE", "LOCK", "UNLOCK")
)


class _Requests(BaseMiddleware):  # type: ignore[misc]  # WsgiDAV has no types
    """Hands each request to a request server of WsgiDAV, which refuses PROPFIND of unlimited depth."""

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        server = RequestServer(environ["wsgidav.provider"])
        server.allow_propfind_infinite = False
        yield from server(environ, start_response)


class LockStore(LockStorageDict):  # type: ignore[misc]  # WsgiDAV has no types
    """The locks, in memory; a store without any answers at once, for nearly all stores have none."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is locked."""
        return not self._dict

    def get_lock_list(
        self, path: str, *, include_root: bool, include_children: bool, token_only: bool
    ) -> list[Any]:
        """Return the locks of a path."""
        if self.is_empty:
            return []
        found: list[Any] = super().get_lock_list(
            path, include_root=include_root, include_children=include_children, token_only=token_only
        )
        return found


class DavApplication:
    """WsgiDAV with the store's provider."""

    def __init__(self, contents: Contents, properties: Properties) -> None:
        logging.getLogger("wsgidav").setLevel(logging.CRITICAL)
        self._provider = StoreProvider(contents, properties)
        self._locks = LockStore()
        self._app = WsgiDAVApp(
            {
                "provider_mapping": {"/": self._provider},
                "middleware_stack": [ErrorPrinter, _Requests],
                "property_manager": DeadProperties(properties),
                "lock_storage": self._locks,
                "logging": {"enable": False},
                "verbose": 1,
                "suppress_version_info": True,
                "add_header_MS_Author_Via": False,
            }
        )

    def __call__(
        self, environ: Environ, start_response: StartResponse, holder: CredentialHolder
    ) -> Iterable[bytes]:
        """Answer a request that is authenticated and has its whole body in memory."""
        environ["wsgidav.auth.user_name"] = holder.name
        answer: Iterable[bytes] = self._app(environ, start_response)
        return answer

    @contextmanager
    def writing(
        self, path: str, environ: Environ, holder: CredentialHolder, *, is_new: bool
    ) -> Iterator[None]:
        """Hold off locks of a path while the block writes it; RefusedError where a lock forbids that."""
        locks, tokens = self._provider.lock_manager, self._tokens(path, environ, holder)
        with _refusals():
            if is_new and not self._locks.is_empty:
                # A new name is a change of its folder.
                folder = self._provider.ref(path.rpartition("/")[0])
                locks.check_write_permission(url=folder, depth="0", token_list=tokens, principal=holder.name)
            with locks.write_transaction(
                url=self._provider.ref(path), token_list=tokens, principal=holder.name
            ):
                yield

    def _tokens(self, path: str, environ: Environ, holder: CredentialHolder) -> list[str]:
        """Return the lock tokens of an If header, whose conditions must hold."""
        if "HTTP_IF" not in environ:
            return []
        with _refusals():
            environ["wsgidav.provider"] = self._provider
            util.parse_if_header_dict(environ)
            resource = self._provider.get_resource_inst(path, environ)
            ref = self._provider.ref(path)
            if resource is not None:
                held = self._provider.lock_manager.get_indirect_url_lock_list(ref, principal=holder.name)
                conditions = environ["wsgidav.conditions.if"]
                tokens = [lock["token"] for lock in held]
                if not util.test_if_header_dict(resource, conditions, ref, tokens, resource.get_etag()):
                    raise RefusedError(412, "a condition of the If header does not hold")
        submitted: list[str] = environ["wsgidav.ifLockTokenList"]
        return submitted


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise WsgiDAV's errors as refusals."""
    try:
        yield
    except DAVError as error:
        code = int(get_http_status_string(error).split(" ", 1)[0])
        page = error.get_response_page() if error.err_condition else None
        raise RefusedError(code, error.context_info or "refused by a lock", page=page) from None
