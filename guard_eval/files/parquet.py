"""Read Parquet and Feather files safely: a small file can contain billions of rows or many long texts."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from guard_eval.errors import MissingExtraError, StudyError

PARQUET, FEATHER = b"PAR1", b"ARROW1"
"""The first bytes of Parquet and Feather files."""
_MOST_VALUES = 10**8
_BATCH_ROWS = 256
"""The number of rows that are read at once. Rows may share one long text that is stored only once."""


def read_arrow(path: Path, data: bytes, *, limit: int, most_rows: int) -> Any:  # noqa: ANN401 (pyarrow has no types)
    """Return the content of a Parquet or Feather file as a pyarrow table.

    Raises:
        StudyError: pyarrow is missing, the file is damaged, or its table has more than `most_rows` rows or
            more than `limit` bytes.
    """
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError("metrics", "pyarrow") from None
    is_parquet = data.startswith(PARQUET)
    try:
        if is_parquet:
            file = parquet.ParquetFile(BytesIO(data))
            _check_sizes(file.metadata, limit=limit, most_rows=most_rows)
            batches = file.iter_batches(batch_size=_BATCH_ROWS)
            schema = file.schema_arrow
        else:
            file = arrow.ipc.open_file(BytesIO(data))
            batches = map(file.get_batch, range(file.num_record_batches))
            schema = file.schema
        batch_rows, size = [], 0
        for batch in batches:
            size += batch.nbytes
            if size > limit:
                raise ValueError(f"the table has more than {limit:,} bytes")  # noqa: TRY301 (reworded below)
            batch_rows.append(batch)
        return arrow.Table.from_batches(batch_rows, schema=schema)
    except (arrow.ArrowException, KeyError, OSError, UnicodeDecodeError, ValueError, MemoryError) as error:
        kind = "Parquet" if is_parquet else "Feather"
        raise StudyError(f"{path} cannot be read as {kind}: {error!s:.200}; write the file again") from None


def _check_sizes(metadata: Any, *, limit: int, most_rows: int) -> None:  # noqa: ANN401 (pyarrow's)
    """Check the number of rows and the unpacked size that the file declares."""
    if metadata.num_rows > most_rows:
        raise ValueError(f"the table has more than {most_rows:,} rows")
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    if sum(chunk.num_values for chunk in chunks) > _MOST_VALUES:
        raise ValueError(f"the table has more than {_MOST_VALUES:,} values")
    if sum(chunk.total_uncompressed_size for chunk in chunks) > limit:
        raise ValueError(f"the table has more than {limit:,} bytes")
