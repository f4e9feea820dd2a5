"""Sphinx's configuration of the site."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

project = "Hopper GEMM, step by step"
author = "The maintainers of hopper-gemm-course"
extensions = ["myst_nb", "authoring.site.terms"]
exclude_patterns = ["**/images/*.md"]
language = "en"

nb_execution_mode = "off"  # the notebooks come with their outputs
nb_render_markdown_format = "myst"
myst_enable_extensions = ["html_image"]
myst_heading_anchors = 4  # the notebooks link to headings as GitHub names them
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]

html_theme = "furo"
html_title = project
html_static_path = ["static"]
html_css_files = ["course.css"]
html_js_files = ["course.js"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False  # the license is in the repository
html_favicon = "favicon.svg"
html_show_search_summary = False  # a file share has no server to fetch them from
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
