"""The dispatcher: decides who is served next, and heals what others left behind.

Each duty is one loop in one file; any number of dispatchers run side by side, since every script is atomic.
"""
