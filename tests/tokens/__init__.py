"""Tests of swe_plugin.tokens."""
