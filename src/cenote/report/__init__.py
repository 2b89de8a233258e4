"""The report: one self-contained page about a run, made from the files that the run left."""

from cenote.report.page import write_report

__all__ = ["write_report"]
