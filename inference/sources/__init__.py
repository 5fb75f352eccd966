"""Where model files come from: hubs, package indexes, URLs, local paths. Knows no database.

The fetching itself is `inference.sources.pull`'s, which whoever pulls imports: it brings an HTTP client,
and a server that pulls nothing starts without.
"""

from inference.sources.errors import SourceError
from inference.sources.network import Network, configured_network
from inference.sources.source import Source, parse_source

__all__ = [
    "Network",
    "Source",
    "SourceError",
    "configured_network",
    "parse_source",
]
