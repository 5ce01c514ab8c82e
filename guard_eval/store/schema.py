"""The tables. `migrations/` makes them; a test holds that both agree.

`pair`, `gold`, `assignment`, `verdict`, `note` and `answer` are append-only: triggers refuse UPDATE and
DELETE. `occupancy` holds nothing that could not be counted anew. The judge's own tables, `request`, `answer`,
`failure` and `batch`, are in `judge_schema`.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    false,
)

from guard_eval.store.columns import ExactText, Moment

VERSION_TABLE = "guard_eval_version"
"""Where the schema's version stands; the name tells a study's database from any other."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

meta = Table(
    "meta",
    metadata,
    Column("key", String(64), primary_key=True, comment="such as study_hash"),
    Column("value", ExactText, nullable=False),
)

rater = Table(
    "rater",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", ExactText, nullable=False, unique=True, comment="a pseudonym, or a model's name"),
    Column("kind", String(16), nullable=False),
    Column(
        "token_hash",
        String(64),
        unique=True,
        comment="SHA-256 of the invitation; the token is stored nowhere",
    ),
    Column("created_at", Moment, nullable=False),
    Column("revoked_at", Moment, comment="from then on the rater is let in no more"),
    Column("excluded_at", Moment, comment="set while the rater's verdicts are left out"),
    Column("source", ExactText, comment="where somebody nobody invited came from, such as prolific"),
    Column("external_id", ExactText, comment="the source's own name for the rater, who is paid by it"),
    CheckConstraint("kind IN ('person', 'model', 'simulated')", name="kind"),
)

Index("uq_rater_source", rater.c.source, rater.c.external_id, unique=True)

visit = Table(
    "visit",
    metadata,
    Column(
        "token_hash", String(64), primary_key=True, comment="SHA-256 of a token given to an enrolled rater"
    ),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("created_at", Moment, nullable=False),
)

pair = Table(
    "pair",
    metadata,
    Column("id", Text, primary_key=True, comment="hash of methods and continuations"),
    Column("dataset", ExactText, nullable=False),
    Column("prompt_id", ExactText, nullable=False),
    Column("prompt", ExactText, nullable=False),
    Column("method_a", ExactText, nullable=False),
    Column("method_b", ExactText, nullable=False),
    Column("continuation_a", ExactText, nullable=False),
    Column("continuation_b", ExactText, nullable=False),
    Column("text_a", ExactText, nullable=False),
    Column("text_b", ExactText, nullable=False),
    Column("position", Integer, nullable=False, comment="its parity and the slot's decide the sides"),
)

gold = Table(
    "gold",
    metadata,
    Column("pair_id", Text, ForeignKey("pair.id"), primary_key=True, comment="a pair outside the study"),
    Column("criterion", ExactText, primary_key=True),
    Column("expected", String(1), nullable=False, comment="which text is clearly better"),
    CheckConstraint("expected IN ('a', 'b')", name="expected"),
)

run = Table(
    "run",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("host", String(64), nullable=False, comment="a hash that stands for the machine since it started"),
    Column("process", String(64), nullable=False, comment="the process's number there, and when it began"),
    Column("started_at", Moment, nullable=False),
    Column("leased_until", Moment, nullable=False, comment="then, unless renewed, its claims are free"),
    Column("ended_at", Moment),
)

presentation = Table(
    "presentation",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("pair_id", Text, ForeignKey("pair.id"), nullable=False),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False),
    Column(
        "pool",
        ExactText,
        nullable=False,
        comment="people, simulated, model: and the model's name, or checks: and the rater's id",
    ),
    Column(
        "slot", Integer, nullable=False, comment="which of the pair's planned showings in its pool: 0, 1, …"
    ),
    Column("attempt", Integer, nullable=False, comment="how often the slot had been handed out before"),
    Column("first", String(1), nullable=False, comment="which of the pair's texts is shown as A"),
    Column("handed_out", Moment, nullable=False),
    Column("leased_until", Moment, nullable=False, comment="then, if unrated, the slot may go to another"),
    Column("rated_at", Moment, comment="when the first verdict came"),
    Column("superseded", Boolean, nullable=False, comment="the slot went to another while this was unrated"),
    Column(
        "withdrawn",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="the rater is excluded, and the slot free",
    ),
    Column("role", String(8), nullable=False, server_default="study", comment="study, gold or repeat"),
    Column("run_id", Integer, ForeignKey("run.id"), comment="of a model's: which run has claimed it"),
    UniqueConstraint("pair_id", "pool", "slot", "attempt"),
    CheckConstraint("first IN ('a', 'b')", name="first"),
    CheckConstraint("slot >= 0 AND attempt >= 0", name="counted"),
    CheckConstraint("role IN ('study', 'gold', 'repeat')", name="role"),
)

occupancy = Table(
    "occupancy",
    metadata,
    Column("pool", ExactText, primary_key=True, comment="people or simulated"),
    Column("pair_id", Text, ForeignKey("pair.id"), primary_key=True),
    Column("ring", Integer, nullable=False, comment="where hand-out comes past it: a hash of the pair's id"),
    Column("held", Integer, nullable=False, comment="slots with a holder, or kept for somebody"),
    Column("vacant", Boolean, nullable=False, comment="fewer are held than there are to be"),
    Column("position", Integer, nullable=False, comment="this and the rest are the pair's own"),
    Column("dataset", ExactText, nullable=False),
    Column("method_a", ExactText, nullable=False),
    Column("method_b", ExactText, nullable=False),
    CheckConstraint("held >= 0", name="held"),
    sqlite_with_rowid=False,
)

Index("ix_occupancy_vacant", occupancy.c.pool, occupancy.c.vacant, occupancy.c.ring)

assignment = Table(
    "assignment",
    metadata,
    Column("pair_id", Text, ForeignKey("pair.id"), primary_key=True),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, comment="for whom the slot is kept"),
    Column("first", String(1), nullable=False, comment="which of the pair's texts is shown as A"),
    UniqueConstraint("rater_id", "pair_id"),
    CheckConstraint("first IN ('a', 'b')", name="first"),
)

_holds = and_(presentation.c.superseded == false(), presentation.c.withdrawn == false())
_once = presentation.c.pool.in_(("people", "simulated"))

Index(
    "uq_presentation_holder",
    presentation.c.pool,
    presentation.c.pair_id,
    presentation.c.slot,
    unique=True,
    sqlite_where=_holds,
    postgresql_where=_holds,
)
Index(
    "uq_presentation_once",
    presentation.c.rater_id,
    presentation.c.pair_id,
    unique=True,
    sqlite_where=_once,
    postgresql_where=_once,
)
Index("ix_presentation_rater", presentation.c.rater_id, presentation.c.rated_at)

_waiting = and_(_holds, presentation.c.rated_at.is_(None))

Index(
    "ix_presentation_lease",
    presentation.c.pool,
    presentation.c.leased_until,
    sqlite_where=_waiting,
    postgresql_where=_waiting,
)

verdict = Table(
    "verdict",
    metadata,
    Column("presentation_id", Integer, ForeignKey("presentation.id"), primary_key=True),
    Column("criterion", ExactText, primary_key=True),
    Column(
        "revision", Integer, primary_key=True, autoincrement=False, comment="0, 1, …; the highest is current"
    ),
    Column("choice", String(3), nullable=False, comment="by the letters on the screen, not by method"),
    Column("at", Moment, nullable=False),
    Column("seconds", Float(53)),
    Column("active_seconds", Float(53)),
    CheckConstraint("choice IN ('A', 'tie', 'B')", name="choice"),
    CheckConstraint("revision >= 0", name="revision"),
)

note = Table(
    "note",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("presentation_id", Integer, ForeignKey("presentation.id"), index=True),
    Column("kind", String(16), nullable=False, comment="such as consent, comment or exclude"),
    Column("detail", ExactText, nullable=False, comment="text, or JSON, as the kind has it"),
    Column("at", Moment, nullable=False),
)
