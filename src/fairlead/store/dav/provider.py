"""WsgiDAV's provider of the store: paths to resources, and the state beside them: properties and locks."""

from typing import Any
from urllib.parse import quote

from wsgidav.dav_provider import DAVProvider
from wsgidav.prop_man.property_manager import PropertyManager

from fairlead.store.contents import Contents
from fairlead.store.dav.resources import FileResource, FolderResource, dav_errors
from fairlead.store.jail import Entry
from fairlead.store.properties import Properties


class StoreProvider(DAVProvider):  # type: ignore[misc]  # WsgiDAV has no types
    """Gives WsgiDAV the files of a store."""

    def __init__(self, contents: Contents, properties: Properties) -> None:
        super().__init__()
        self.contents = contents
        self.properties = properties

    def is_readonly(self) -> bool:
        """Return whether nothing can be written."""
        return False

    def get_resource_inst(self, path: str, environ: dict[str, Any]) -> FileResource | FolderResource | None:
        """Return the resource of a path; None where there is nothing."""
        with dav_errors():
            entry = self.contents.jail.entry(path)
        return None if entry is None else self.resource_of(path, environ, entry)

    def resource_of(self, path: str, environ: dict[str, Any], entry: Entry) -> FileResource | FolderResource:
        """Return the resource of an entry."""
        kind = FolderResource if entry.is_folder else FileResource
        return kind(path, environ, self, entry)

    def ref(self, path: str) -> str:
        """Return the key of a file's path in the stores of locks."""
        return quote(path.rstrip("/") or "/")

    def copy_state(self, path: str, target: str) -> None:
        """Copy the properties of a path."""
        self.properties.copy(key_of(path), key_of(target))

    def move_state(self, path: str, target: str) -> None:
        """Move the properties of a path and all below it; locks stay behind, as RFC 4918 says."""
        self.properties.move(key_of(path), key_of(target))
        self.lock_manager.remove_all_locks_from_url(self.ref(path), recursive=True)

    def remove_state(self, path: str) -> None:
        """Remove the properties and locks of a path and of all below it."""
        self.properties.remove_below(key_of(path))
        self.lock_manager.remove_all_locks_from_url(self.ref(path), recursive=True)


class DeadProperties(PropertyManager):  # type: ignore[misc]  # WsgiDAV has no types
    """Properties as WsgiDAV's property manager."""

    def __init__(self, properties: Properties) -> None:
        super().__init__()
        self._properties = properties

    def get_properties(self, norm_url: str, _environ: object = None) -> list[str]:
        """Return the names of a resource's properties."""
        return self._properties.names(_key(norm_url))

    def get_property(self, norm_url: str, name: str, _environ: object = None) -> bytes | None:
        """Return a property."""
        return self._properties.get(_key(norm_url), name)

    def write_property(
        self, norm_url: str, name: str, value: bytes, dry_run: bool = False, _environ: object = None
    ) -> None:
        """Store a property, or only check whether it may be."""
        with dav_errors():
            self._properties.check(_key(norm_url), name, value)
        if not dry_run:
            self._properties.set(_key(norm_url), name, value)

    def remove_property(
        self, norm_url: str, name: str, dry_run: bool = False, _environ: object = None
    ) -> None:
        """Remove a property."""
        if not dry_run:
            self._properties.remove(_key(norm_url), name)


def key_of(path: str) -> str:
    """Return the key of a path among the properties."""
    return quote(path.rstrip("/")) or "/"


def _key(norm_url: str) -> str:
    return norm_url.rstrip("/") or "/"
