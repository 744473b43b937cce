"""Telling webhooks: which addresses may be spoken to, how a message is signed, sent and judged."""
