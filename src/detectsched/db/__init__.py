"""The ledger: PostgreSQL through SQLModel where it is read, through set-based asyncpg statements where it is hot."""
