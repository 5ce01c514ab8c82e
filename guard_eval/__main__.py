"""The command line: `guard-eval`, or `python -m guard_eval`."""

from guard_eval.cli.start import main

if __name__ == "__main__":
    main()
