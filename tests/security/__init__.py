"""Tests of identities, permissions and credentials."""
