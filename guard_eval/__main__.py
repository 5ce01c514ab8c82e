"""The command line: `guard-eval`, or `python -m guard_eval`.

No module is taken from the folder in which a command is run, which may be anybody's: `python -m` would take a
local `judge.py` in place of ours. A local `guard_eval` is taken before this code runs; use the script
`guard-eval` where that may be.
"""

import signal

from guard_eval.cli.search_path import leave_out_current_folder


def main() -> None:
    """Run the command line. Ctrl-C while it loads ends it at once and without a traceback."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    leave_out_current_folder()
    from guard_eval.cli.frame import main as run  # noqa: PLC0415 (only now nothing else is found)

    signal.signal(signal.SIGINT, handler)
    run()


if __name__ == "__main__":
    main()
