"""What can be noticed."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Signal"]


class Signal(StrEnum):
    """Values are flags of a result, keys of ``swe.grading.honesty``, and names of metrics below ``swe/flags``."""

    EMPTY_PATCH = "empty_patch"
    TEST_ONLY_PATCH = "test_only_patch"
    TESTS_EDITED = "tests_edited"
    TEST_CONFIGURATION = "test_configuration"
    SKIPS_ADDED = "skips_added"
    TESTS_PATCHED = "tests_patched"
    TESTS_ABORTED = "tests_aborted"
    HISTORY_READ = "history_read"
    SITE_PACKAGES_READ = "site_packages_read"
    NETWORK_ATTEMPT = "network_attempt"
