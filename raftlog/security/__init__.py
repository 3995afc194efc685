"""Identities, permissions and credentials: pure parts, shared by brokers and clients."""
