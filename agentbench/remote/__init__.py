"""Environments that live in another process: the wire, and both of its ends."""
