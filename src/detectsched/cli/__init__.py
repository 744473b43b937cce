"""The ``detectsched`` command. Commands import what they run inside, so that ``--help`` stays fast."""
