"""Word lists: their versions, their drafts, and the words of each."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

from detectsched.db.models.columns import FALSE, text_, time_


class WordList(SQLModel, table=True):
    """A list of words; the default lists of a tenant judge every task that names none."""

    __tablename__: ClassVar[str] = "word_list"
    tenant: str = text_(primary_key=True, foreign_key="tenant.id")
    id: str = text_(primary_key=True)
    name: str = text_()
    is_default: bool = Field(sa_column_kwargs={"server_default": text("true")})
    current_version: int = Field(sa_column_kwargs={"server_default": "0"})
    """0: it has only a draft."""
    created_at: datetime = time_()
    deleted_at: datetime | None = time_(default=False)
    """Nothing new is judged by it; its versions stay, for what was, and for the tasks that name it."""


class WordListVersion(SQLModel, table=True):
    """One published state of a list; never changed afterwards."""

    __tablename__: ClassVar[str] = "word_list_version"
    __table_args__ = (
        CheckConstraint("version > 0"),
        ForeignKeyConstraint(["tenant", "list_id"], ["word_list.tenant", "word_list.id"], ondelete="CASCADE"),
    )
    tenant: str = text_(primary_key=True)
    list_id: str = text_(primary_key=True)
    version: int = Field(primary_key=True)
    word_count: int
    published_at: datetime = time_()
    published_by: str = text_(default="")
    options: Any = Field(sa_column=Column(JSONB, nullable=False, server_default="{}"))
    """How it is matched; what is absent is as `ListOptions` has it."""
    restores: int | None
    """The earlier version that it repeats, where it is a rollback."""


class WordListDraft(SQLModel, table=True):
    """What is to become the next version of a list; nothing is judged by it."""

    __tablename__: ClassVar[str] = "word_list_draft"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "list_id"], ["word_list.tenant", "word_list.id"], ondelete="CASCADE"),
    )
    tenant: str = text_(primary_key=True)
    list_id: str = text_(primary_key=True)
    name: str = text_()
    is_default: bool
    options: Any = Field(sa_column=Column(JSONB, nullable=False))
    base_version: int
    """The version that was current when it was begun."""
    revision: int
    """Counts its changes."""
    word_count: int
    updated_at: datetime = time_()
    updated_by: str = text_()


class DraftWordRow(SQLModel, table=True):
    """One word of a draft."""

    __tablename__: ClassVar[str] = "draft_word"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "list_id"], ["word_list_draft.tenant", "word_list_draft.list_id"], ondelete="CASCADE"
        ),
    )
    tenant: str = text_(primary_key=True)
    list_id: str = text_(primary_key=True)
    text: str = text_(primary_key=True)
    allow: bool = Field(primary_key=True)
    position: int
    """Their order, with gaps."""
    category: str = text_()
    level: int
    mode: str | None = text_()
    tags: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    replacement: str | None = text_()


class WordRow(SQLModel, table=True):
    """One word of one version of one list."""

    __tablename__: ClassVar[str] = "word"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "list_id", "version"],
            ["word_list_version.tenant", "word_list_version.list_id", "word_list_version.version"],
            ondelete="CASCADE",
        ),
    )
    tenant: str = text_(primary_key=True)
    list_id: str = text_(primary_key=True)
    version: int = Field(primary_key=True)
    position: int = Field(primary_key=True)
    text: str = text_()
    category: str = text_()
    level: int
    mode: str | None = text_()
    """None: the list's."""
    allow: bool = Field(default=False, sa_column_kwargs={"server_default": FALSE})
    tags: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    replacement: str | None = text_()
