"""From a tidy table of verdicts to result rows, and from rows to tables, figures and a report.

It knows no database: any CSV with the columns of `analysis.verdicts.tidy.REQUIRED` will do.
"""
