"""Django settings of the test run: the project's own, on a database in memory."""

import os
import tempfile

os.environ.setdefault("PANTHEON_DATA_DIR", tempfile.mkdtemp(prefix="pantheon-tests-"))

from pantheon_site.settings import *  # noqa: E402, F403
