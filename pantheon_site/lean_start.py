"""What every start goes without, settled before Django and its apps are imported.

Owns what is said to Python and to packages of others for that; knows nothing of what is served.
"""

from __future__ import annotations

import gc
import os
import sys

# Python looks for unreachable cycles every 700 new objects, and walks all old ones each time their number
# has grown by a quarter. Starting and loading a model make hundreds of thousands, and hardly any cycle.
OBJECTS_BETWEEN_COLLECTIONS = 20_000


def start_lean() -> None:
    """Where Twisted is imported already, as by daphne's own command, that stays as it is."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    # TLS is for a proxy before the server: Twisted looks for pyOpenSSL and, told that there is none, imports
    # neither that nor all of cryptography, a sixth of a start.
    sys.modules.setdefault("OpenSSL", None)  # type: ignore[arg-type]  # Python's way to say so
    # Its check of WebSocket texts parses C at each import, and no WebSocket is served.
    os.environ.setdefault("AUTOBAHN_USE_NVX", "0")
