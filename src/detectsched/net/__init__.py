"""Requests to addresses that strangers chose: `guard` decides where they may go, `fetch` downloads a file."""
