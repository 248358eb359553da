"""Owns how the documentation is built: `make docs`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import coe_agents  # noqa: E402

project = "coe-agents"
author = "The coe-agents maintainers"
project_copyright = f"2026, {author}"
version = release = coe_agents.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "coe_docs",
]
# `results` holds what benchmarks write, which other pages show
exclude_patterns = ["_build", "_ext", "_*.md", "results"]
default_role = "code"  # of coe_docs: single backticks in docstrings are code, and a link where the name is known

html_theme = "furo"
html_title = f"coe-agents {version}"
html_static_path = ["_static"]
html_css_files = ["coe.css"]
html_math_renderer = "mathml"  # of coe_docs: no script, no network
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_fence_as_directive = {"math"}  # the fence that forges show as a formula

autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_member_order = "alphabetical"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False
toc_object_entries = False

copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
