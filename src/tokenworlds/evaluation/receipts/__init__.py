"""Receipts: one small text file for an agent and a game, and the tables made from them.

A receipt says what came out and how to get it again: scores of every seed, command, commit,
versions, hardware and hours. docs/results.md shows receipts and no other numbers.
"""
