"""Fixtures every test may use: where the reference data lies, and what was skipped."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# Wall-clock deadlines fail on a busy machine, not on a bug; tests that must end have a timeout.
hypothesis.settings.register_profile("project", deadline=None)
hypothesis.settings.load_profile("project")

# Larger reference data lives beside the checkout; tests that need it are skipped, and counted, without.
SHARED = Path(os.environ.get("PANTHEON_TEST_SHARED", Path(__file__).parents[2] / "shared"))
GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def golden() -> Path:
    """Small reference data that is part of the project."""
    return GOLDEN


@pytest.fixture(scope="session")
def shared_golden() -> Path:
    """The full reference data, where it is present."""
    folder = SHARED / "golden"
    if not folder.is_dir():
        pytest.skip(f"full reference data is absent: {folder}")
    return folder
