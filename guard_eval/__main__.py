"""The command line: `guard-eval`, or `python -m guard_eval`."""

import signal

from guard_eval.search_path import leave_out_current_folder


def main() -> None:
    """Run the command line, with no module from the current folder.

    Ctrl-C while the program loads ends it at once: nothing is under way yet, and an exception would show
    where in whose module it came.
    """
    loading = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if loading:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    leave_out_current_folder()
    from guard_eval.cli import main as run  # noqa: PLC0415 (only now nothing else is found)

    if loading:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
