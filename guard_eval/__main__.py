"""`python -m guard_eval` is `guard-eval`."""

from guard_eval.cli import main

if __name__ == "__main__":
    main()
