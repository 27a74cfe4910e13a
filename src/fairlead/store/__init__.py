"""The store of a data pod: files over WebDAV and plain HTTP, whole or not at all."""
