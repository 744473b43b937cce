"""Sums per hour, and what is still to be added to them."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    Identity,
    Index,
)
from sqlmodel import Field, SQLModel

from detectsched.db.models.columns import count_, text_, time_


class _Measured(SQLModel):
    """How many tasks ended, and how long those waited and ran that their runner ended (``timed`` of them)."""

    tasks: int = count_()
    with_hits: int = count_()
    hits: int = count_()
    timed: int = count_()
    wait_us: int = count_()
    run_us: int = count_()
    waits: list[int] = Field(sa_type=ARRAY(BigInteger), sa_column_kwargs={"server_default": "{}"})
    """A histogram, as of db/histogram.py."""
    runs: list[int] = Field(sa_type=ARRAY(BigInteger), sa_column_kwargs={"server_default": "{}"})


class StatHourly(_Measured, table=True):
    """What ended within an hour; a detection that a device reported has the state ``reported`` and no lane ('')."""

    __tablename__: ClassVar[str] = "stat_hourly"
    tenant: str = text_(primary_key=True)
    hour: datetime = time_(default=False, primary_key=True)
    lane: str = text_(primary_key=True)
    state: str = text_(primary_key=True)


class StatDevice(_Measured, table=True):
    """The same by device; what belongs to none has the address ''."""

    __tablename__: ClassVar[str] = "stat_device"
    __table_args__ = (Index("stat_device_mac", "tenant", "mac", "hour"),)
    tenant: str = text_(primary_key=True)
    hour: datetime = time_(default=False, primary_key=True)
    mac: str = text_(primary_key=True)
    lane: str = text_(primary_key=True)
    state: str = text_(primary_key=True)


class StatWord(SQLModel, table=True):
    """How often a word was found within an hour; the word '' stands for all of a category together."""

    __tablename__: ClassVar[str] = "stat_word"
    tenant: str = text_(primary_key=True)
    hour: datetime = time_(default=False, primary_key=True)
    category: str = text_(primary_key=True)
    word: str = text_(primary_key=True)
    lane: str = text_(primary_key=True)
    tasks: int = count_()
    hits: int = count_()


class StatRemoved(SQLModel, table=True):
    """Ended tasks that were removed since: their hour cannot be counted again."""

    __tablename__: ClassVar[str] = "stat_removed"
    tenant: str = text_(primary_key=True)
    hour: datetime = time_(default=False, primary_key=True)
    tasks: int = Field(sa_type=BigInteger)


class StatDue(SQLModel, table=True):
    """A task that has ended, or a report, and is not counted yet."""

    __tablename__: ClassVar[str] = "stat_due"
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    task_id: UUID | None
    report_id: int | None = Field(sa_type=BigInteger)
