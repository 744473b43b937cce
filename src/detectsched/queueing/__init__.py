"""The queues: the only package that talks to Redis or Valkey.

Outsiders import its door, `queueing.queue`, and its connection factory, `queueing.connection`, no more.
"""
