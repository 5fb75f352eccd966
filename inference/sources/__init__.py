"""Where model files come from: hubs, package indexes, URLs, local paths. Knows no database."""

from inference.sources.errors import SourceError
from inference.sources.network import Network, configured_network
from inference.sources.pull import PulledFile, pull
from inference.sources.source import Source, parse_source

__all__ = [
    "Network",
    "PulledFile",
    "Source",
    "SourceError",
    "configured_network",
    "parse_source",
    "pull",
]
