"""The door to WsgiDAV: files and folders as resources, properties, locks."""
