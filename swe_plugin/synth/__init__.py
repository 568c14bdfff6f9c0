"""Verified tasks made from any repository that carries tests."""
