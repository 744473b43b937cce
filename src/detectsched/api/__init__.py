"""The HTTP API. ``server.ApiServer`` is the daemon, ``app.create_app`` the ASGI application.

A task comes in by ``routes/ocr`` or ``routes/batch``, is made a ``intake.Submission`` (right in itself), and goes down
``submission.AcceptPath`` to its 202.
"""
