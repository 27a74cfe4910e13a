"""Files and folders of the store as WsgiDAV's resources."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from wsgidav.dav_error import DAVError
from wsgidav.dav_provider import DAVCollection, DAVNonCollection

from fairlead.store.jail import Entry
from fairlead.store.media_types import content_type
from fairlead.store.refusal import RefusedError, refusal_of

if TYPE_CHECKING:
    from fairlead.store.dav.provider import StoreProvider


@contextmanager
def dav_errors() -> Iterator[None]:
    """Raise refusals and errors of the file system as WsgiDAV's errors."""
    try:
        yield
    except RefusedError as refusal:
        raise DAVError(int(refusal.status), refusal.reason) from None
    except OSError as error:
        cause = refusal_of(error)
        raise DAVError(int(cause.status), cause.reason) from None


class _Shared:
    """What files and folders have in common; mixed into WsgiDAV's two classes."""

    path: str
    name: str
    environ: dict[str, Any]
    provider: "StoreProvider"
    entry: Entry

    def get_creation_date(self) -> float:
        return self.entry.status.st_ctime

    def get_last_modified(self) -> float:
        return self.entry.status.st_mtime

    def get_display_name(self) -> str:
        return self.name

    def support_recursive_move(self, _dest_path: str) -> bool:
        return True

    def move_recursive(self, dest_path: str) -> None:
        with dav_errors():
            self.provider.contents.move(self.path, dest_path)
            self.provider.move_state(self.path, dest_path)

    def delete(self) -> None:
        with dav_errors():
            self.provider.contents.remove(self.path)
            self.provider.remove_state(self.path)


class FileResource(_Shared, DAVNonCollection):  # type: ignore[misc]  # WsgiDAV has no types
    """A file."""

    def __init__(self, path: str, environ: dict[str, Any], provider: "StoreProvider", entry: Entry) -> None:
        super().__init__(path, environ)
        self.provider, self.entry = provider, entry
        self.name = path.rstrip("/").rpartition("/")[2]

    def get_content_length(self) -> int:
        """Return its bytes."""
        return self.entry.status.st_size

    def get_content_type(self) -> str:
        """Return the content type that its name suggests."""
        return content_type(self.name)

    def get_etag(self) -> str:
        """Return its ETag, without the quotes."""
        version = self.provider.contents.version(self.entry)
        assert version is not None, "it is a file"
        return version.etags[0].strip('"')

    def get_property_value(self, name: str) -> Any:
        """Return a property; the ETag in the form of the header."""
        # RFC 4918: the property has the form of the header; WsgiDAV leaves the quotes out.
        return f'"{self.get_etag()}"' if name == "{DAV:}getetag" else super().get_property_value(name)

    def support_etag(self) -> bool:
        """Return that it has an ETag."""
        return True

    def support_ranges(self) -> bool:
        """Return that parts of it can be read."""
        return True

    def get_content(self) -> NoReturn:
        """Never called: GET is answered elsewhere."""
        raise DAVError(500, "files are read without WsgiDAV")

    def handle_copy(self, dest_path: str, *, depth_infinity: bool) -> bool:
        """Replace a file by a copy in one step; False where WsgiDAV must copy."""
        del depth_infinity  # a file has no depth
        return self._replace(dest_path, is_move=False)

    def handle_move(self, dest_path: str) -> bool:
        """Replace a file by this one in one step; False where WsgiDAV must move."""
        return self._replace(dest_path, is_move=True)

    def copy_move_single(self, dest_path: str, *, is_move: bool) -> None:
        """Copy it, whole or not at all."""
        del is_move  # the source is removed by the caller, after the copy
        with dav_errors():
            self.provider.contents.copy(self.entry, dest_path, _nothing)
            self.provider.copy_state(self.path, dest_path)

    def _replace(self, dest_path: str, *, is_move: bool) -> bool:
        """Replace a file by this one in one step; False where there is none, which WsgiDAV handles."""
        with dav_errors():
            target = self.provider.contents.jail.entry(dest_path)
            if target is None or target.is_folder:
                return False
            self.provider.lock_manager.remove_all_locks_from_url(self.provider.ref(dest_path))
            if is_move:
                self.move_recursive(dest_path)
            else:
                self.copy_move_single(dest_path, is_move=False)
        return True


class FolderResource(_Shared, DAVCollection):  # type: ignore[misc]  # WsgiDAV has no types
    """A folder."""

    def __init__(self, path: str, environ: dict[str, Any], provider: "StoreProvider", entry: Entry) -> None:
        super().__init__(path, environ)
        self.provider, self.entry = provider, entry
        self.name = path.rstrip("/").rpartition("/")[2]

    def get_used_bytes(self) -> str:
        """Return the bytes of all files."""
        return str(self.provider.contents.account.usage().used)

    def get_available_bytes(self) -> str:
        """Return the bytes that the quota leaves."""
        return str(self.provider.contents.account.usage().available)

    def get_directory_info(self) -> None:
        """Return nothing: no pages list folders."""

    def get_member_names(self) -> list[str]:
        """Return the names of its members."""
        return [name for name, _ in self._members()]

    def get_member(self, name: str) -> Any:
        """Return a member."""
        return self.provider.get_resource_inst(self._path_of(name), self.environ)

    def get_member_list(self) -> list[Any]:
        """Return its members, read anew: other programs write in the same folders."""
        members = []
        for name, entry in self._members():
            path = self._path_of(name)
            if entry is None:
                member = self.provider.get_resource_inst(path, self.environ)
            else:
                member = self.provider.resource_of(path, self.environ, entry)
            if member is not None:  # else it was removed meanwhile
                members.append(member)
        return members

    def support_recursive_delete(self) -> bool:
        """Return that it is removed in one step."""
        return True

    def create_empty_resource(self, name: str) -> Any:
        """Make an empty file, for LOCK on a new name."""
        path = self._path_of(name)
        with dav_errors():
            self.provider.contents.make_empty(path)
        return self.provider.get_resource_inst(path, self.environ)

    def create_collection(self, name: str) -> None:
        """Make a folder."""
        with dav_errors():
            self.provider.contents.make_folder(self._path_of(name))

    def copy_move_single(self, dest_path: str, *, is_move: bool) -> None:
        """Make the folder of a copy, without its members."""
        del is_move
        with dav_errors():
            if self.provider.contents.jail.entry(dest_path) is None:
                self.provider.contents.make_folder(dest_path.rstrip("/"))
            self.provider.copy_state(self.path, dest_path)

    def _path_of(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}"

    def _members(self) -> list[tuple[str, Entry | None]]:
        """Return the names and the entries of the folder's members; None for links, which are followed."""
        jail, folder = self.provider.contents.jail, self.entry.real
        members: list[tuple[str, Entry | None]] = []
        with dav_errors(), os.scandir(folder) as entries:
            for each in entries:
                if not jail.is_visible(folder, each):
                    continue
                try:
                    status = each.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                real = Entry(each.path, status)
                members.append((each.name, None if stat.S_ISLNK(status.st_mode) else real))
        return sorted(members, key=lambda member: member[0])


def _nothing(_replaced: os.stat_result | None) -> None:
    """Check nothing: WsgiDAV has checked the conditions of a copy."""
