"""Read the files that commands write, and write JSON lines for them."""

import csv
import json


def read_csv(path):
    """Return the rows of a CSV file as dictionaries."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def write_json_lines(path, values):
    """Write values to a file of JSON lines."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


def read_folder(folder):
    """Return the bytes of all files in a folder by their paths in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_json_lines(path):
    """Return the values of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
