"""One page to show: a self-contained HTML file that needs no network and no server."""

from expertload.report.page import build_report

__all__ = ["build_report"]
