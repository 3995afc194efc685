"""Transactions: atomic visibility, cycles (G0, G1c), intermediate reads (G1b), and offsets that agree with data."""

from jepsen.checkers.transactions.checker import Transactions

__all__ = ["Transactions"]
