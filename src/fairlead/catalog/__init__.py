"""The devices that this program knows, as data: TOML files in this package, and the user's own."""

from fairlead.catalog.device import CatalogDevice as CatalogDevice
from fairlead.catalog.index import Catalog as Catalog
from fairlead.catalog.lint import lint as lint
from fairlead.catalog.load import load as load
