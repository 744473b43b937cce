"""Breaks a real system on purpose, and proves from the outside that nothing was lost: not part of what is installed.

``python -m chaos`` runs load under faults, ``python -m chaos.sweep`` every failpoint, ``python -m chaos.check`` only
checks.
"""
