"""`python -m guard_eval.replicate.checks [NAME…]`: checks without the command line."""

import sys

from guard_eval.replicate.checks import as_recorded, each, lines, summary

made = []
for check in each(sys.argv[1:]):
    made.append(check)
    sys.stdout.write("\n".join([*lines(check), "", ""]))
    sys.stdout.flush()
sys.stdout.write(summary(made) + "\n")
sys.exit(not all(as_recorded(check) for check in made))
