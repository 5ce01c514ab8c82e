"""The command line: `guard-eval`, or `python -m guard_eval`."""

from guard_eval.search_path import leave_out_current_folder


def main() -> None:
    """Run the command line, with no module from the current folder."""
    leave_out_current_folder()
    from guard_eval.cli import main as run  # noqa: PLC0415 (only now nothing else is found)

    run()


if __name__ == "__main__":
    main()
