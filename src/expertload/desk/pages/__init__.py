"""The pages that people see: plain HTML and forms, a little script, nothing from other sites."""

from expertload.desk.pages.install import install_pages

__all__ = ["install_pages"]
