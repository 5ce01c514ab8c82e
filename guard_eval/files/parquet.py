"""Parquet and Feather files, whose few bytes can stand for billions of rows or for a long text in each."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.files.opening import read_bytes

_MOST_VALUES = 10**8
_BATCH_ROWS = 256
"""Rows that are read at once. A text may be long, and may be stored once for all rows."""


def read_parquet(path: Path, *, limit: int, most_rows: int) -> Any:  # noqa: ANN401 (pyarrow has no types)
    """Return a Parquet file as a pyarrow table.

    Raises:
        StudyError: pyarrow is missing, the file is no Parquet file, or its table has more than `most_rows`
            rows or more than `limit` bytes.
    """
    data = read_bytes(path, limit=limit)
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError("metrics", "pyarrow") from None
    try:
        file = parquet.ParquetFile(BytesIO(data))
        _check_sizes(file.metadata, limit=limit, most_rows=most_rows)
        batches, size = [], 0
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            size += batch.nbytes
            if size > limit:
                raise ValueError(f"its table has more than {limit:,} bytes")  # noqa: TRY301 (reworded below)
            batches.append(batch)
        return arrow.Table.from_batches(batches, schema=file.schema_arrow)
    except (arrow.ArrowException, KeyError, OSError, UnicodeDecodeError, ValueError, MemoryError) as error:
        raise StudyError(f"{path} cannot be read as Parquet: {error!s:.200}; write the file again") from None


def read_feather(path: Path, data: bytes, *, limit: int) -> Any:  # noqa: ANN401 (pyarrow has no types)
    """Return the content of a Feather file as a pyarrow table.

    Raises:
        StudyError: pyarrow is missing, the file is no Feather file, or its table has more than `limit` bytes.
    """
    try:
        arrow: Any = import_module("pyarrow")
    except ImportError:
        raise MissingExtraError("metrics", "pyarrow") from None
    try:
        file = arrow.ipc.open_file(BytesIO(data))
        batches, size = [], 0
        for number in range(file.num_record_batches):
            batches.append(file.get_batch(number))
            size += batches[-1].nbytes
            if size > limit:
                raise ValueError(f"its table has more than {limit:,} bytes")  # noqa: TRY301 (reworded below)
        return arrow.Table.from_batches(batches, schema=file.schema)
    except (arrow.ArrowException, OSError, ValueError, MemoryError) as error:
        raise StudyError(f"{path} cannot be read as Feather: {error!s:.200}; write the file again") from None


def _check_sizes(metadata: Any, *, limit: int, most_rows: int) -> None:  # noqa: ANN401 (pyarrow's)
    """Check what a file says of its rows and of its unpacked size."""
    if metadata.num_rows > most_rows:
        raise ValueError(f"its table has more than {most_rows:,} rows")
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    if sum(chunk.num_values for chunk in chunks) > _MOST_VALUES:
        raise ValueError(f"its table has more than {_MOST_VALUES:,} values")
    if sum(chunk.total_uncompressed_size for chunk in chunks) > limit:
        raise ValueError(f"its table has more than {limit:,} bytes")
