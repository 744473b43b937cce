"""The routes: each file one resource, each function one operation whose name is its operationId."""
