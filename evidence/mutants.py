"""Which faults would the tests let through? Break one expression at a time, and see whether a test fails.

python evidence/mutants.py mutants.csv --modules 40 --mutants 10

A mutant is a module in which one comparison, operator, number, condition or returned value is changed.
The quick tests of its room run first, then the slow ones, each until the first failure. The CSV has a row
for each mutant. A mutant that no test catches is equivalent to the program, or a fault that the tests miss.
"""

from __future__ import annotations

import argparse
import ast
import csv
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

PACKAGES = ("guard_eval", "annotation_app", "judge", "analysis")
TESTS = {
    "guard_eval/estimate.py": ["tests/test_estimate.py", "tests/metrics", "tests/analysis"],
    "guard_eval/generation/strategies": ["tests/generation/test_strategies.py", "tests/generation/decoding"],
    "guard_eval/generation/decoding": ["tests/generation/decoding", "tests/generation/engines"],
    "guard_eval/generation/engines": ["tests/generation/engines"],
    "guard_eval/cli": ["tests/cli"],
    "guard_eval/": ["tests/test_records.py", "tests/cli", "tests/store"],
}
"""The tests of a room whose folder has another name, by the beginning of a module's path."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
CPU_SECONDS = 150


def tests_of(module: str) -> list[str]:
    """Return the tests of the room that a module belongs to."""
    room = Path("tests", *Path(module).parts[:2][-1:]) if module.startswith("guard_eval/") else None
    room = room or Path("tests", Path(module).parts[0])
    for beginning, tests in TESTS.items():
        if module.startswith(beginning) and not (beginning == "guard_eval/" and room.is_dir()):
            return tests
    return [str(room)]


def mutable_nodes(tree: ast.Module) -> list[ast.AST]:
    """Return the expressions and statements inside of functions that `mutate` can change."""
    inside = [
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in function.body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for node in ast.walk(statement)
    ]
    return [node for node in dict.fromkeys(inside) if mutate(node, dry_run=True)]


def mutate(node: ast.AST, *, dry_run: bool = False) -> bool:
    """Change a node in place, if it is of a kind that can be changed; return whether it is."""
    match node:
        case ast.Compare(ops=[operator, *_]) if type(operator) in COMPARISONS:
            attribute, value = "ops", [COMPARISONS[type(operator)](), *node.ops[1:]]
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            attribute, value = "op", OPERATORS[type(operator)]()
        case ast.BoolOp():
            attribute, value = "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            attribute, value = "value", node.value + 1
        case ast.If() | ast.IfExp():
            attribute, value = "test", ast.Constant(value=False)
        case ast.Return(value=ast.expr() as result) if not isinstance(result, ast.Constant):
            attribute, value = "value", ast.Constant(value=None)
        case _:
            return False
    if not dry_run:
        setattr(node, attribute, value)
    return True


class MutantFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import one module from changed source."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.source = path, source
        self.name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Return this finder's own spec for the mutated module, and None for others."""
        if fullname != self.name:
            return None
        package = self.path.endswith("__init__.py")
        return importlib.util.spec_from_loader(fullname, self, origin=self.path, is_package=package)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed source."""
        module.__file__ = str(Path(self.path).resolve())
        if module.__spec__ and module.__spec__.submodule_search_locations is not None:
            module.__spec__.submodule_search_locations[:] = [str(Path(self.path).resolve().parent)]
        exec(compile(self.source, self.path, "exec"), module.__dict__)  # noqa: S102


class FailureRecorder:
    """Remember the first test that failed."""

    failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be collected."""
        if report.failed and not self.failed:
            self.failed = report.nodeid


def first_failure(finder: MutantFinder | None, tests: Sequence[str], marks: str) -> str:
    """Run tests in a child process with a mutant; return the test that failed first, or an empty text."""
    reading, writing = os.pipe()
    if child := os.fork():
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        return json.loads(answer) if answer else "stopped: too much processor time, or a crash"
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    if finder:
        sys.meta_path.insert(0, finder)
    recorder = FailureRecorder()
    options = ["-q", "-x", "--tb=no", "-p", "no:cacheprovider", "--timeout=100", "-m", marks]
    code = pytest.main([*options, *tests], plugins=[recorder])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and not recorder.failed:
        recorder.failed = f"pytest ended with {code}"
    os.write(writing, json.dumps(recorder.failed).encode())
    os._exit(0)


def mutants(module: str, count: int, seed: int) -> list[tuple[int, str, MutantFinder]]:
    """Return mutants of a module: the line, what stood there, and the finder that imports it."""
    source = Path(module).read_text(encoding="utf-8")
    total = len(mutable_nodes(ast.parse(source)))
    drawn = random.Random(f"{seed} {module}").sample(range(total), min(count, total))  # noqa: S311
    result = []
    for index in sorted(drawn):
        tree = ast.parse(source)
        node = mutable_nodes(tree)[index]
        before = " ".join(ast.unparse(node).split())[:80]
        mutate(node)
        result.append((node.lineno, before, MutantFinder(module, ast.unparse(tree))))  # type: ignore[attr-defined]
    return result


def main() -> None:
    """Write the table, and print how many mutants no test caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--modules", type=int, default=40, help="how many of the larger modules are drawn")
    parser.add_argument("--mutants", type=int, default=10, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="leave out the slow tests")
    parser.add_argument("--only", nargs="*", help="paths of modules, instead of a drawn sample")
    options = parser.parse_args()
    paths = sorted(str(path) for package in PACKAGES for path in Path(package).rglob("*.py"))
    larger = [
        path for path in paths if len(mutable_nodes(ast.parse(Path(path).read_text()))) >= options.mutants
    ]
    draw = random.Random(options.seed)  # noqa: S311
    modules = options.only or sorted(draw.sample(larger, min(options.modules, len(larger))))
    survivors = total = 0
    with options.output.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["module", "line", "before", "caught_by"])
        for module in modules:
            tests = tests_of(module)
            for line, before, finder in mutants(module, options.mutants, options.seed):
                failure = first_failure(finder, tests, "not slow")
                if not failure and not options.quick:
                    failure = first_failure(finder, tests, "slow")
                table.writerow([module, line, before, failure])
                file.flush()
                total, survivors = total + 1, survivors + (not failure)
    print(f"{survivors} of {total} mutants were caught by no test")


if __name__ == "__main__":
    main()
