"""Checkers of transactions: atomic visibility, cycles (G0, G1c), intermediate reads (G1b), and consumed offsets."""

from jepsen.checkers.transactions.checker import Transactions

__all__ = ["Transactions"]
