"""PaddleOCR, in an environment of its own (`make test-paddle`)."""
