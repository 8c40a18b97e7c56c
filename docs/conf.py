"""How Sphinx builds the site. `make docs` runs it, offline and without a warning."""

import os
import sys
from pathlib import Path

from expertload import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
os.environ["JUPYTER_PATH"] = str(HERE / "_jupyter")  # the kernel that runs the tutorials

project = "expertload"
author = "the expertload developers"
copyright = author  # noqa: A001 - the name Sphinx reads
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "api_pages",
    "command_pages",
    "mathml",
    "narrow_tables",
    "offline",
    "plain_names",
]
exclude_patterns = ["_build", "_extensions", "_jupyter"]
nitpicky = True

# Single backticks in docstrings: a link where they name something public, otherwise code.
default_role = "name"
autodoc_typehints = "none"  # the docstrings say the types, in words
autodoc_member_order = "bysource"
autosummary_generate = False  # api_pages writes one page for each name
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# Tutorials run when they changed, and keep their outputs beside the built site.
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_ipywidgets_js = {}  # nothing is loaded from the network

html_theme = "pydata_sphinx_theme"
html_title = "expertload"
html_logo = "_static/logo.svg"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "expertload"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
