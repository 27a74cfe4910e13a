"""Files as documents: manifests, the short form, and snapshots."""
