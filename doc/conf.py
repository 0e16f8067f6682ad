"""Documentation: `python -m sphinx -W doc doc/_build` builds it, without network.

``-D plot_gallery=0`` leaves the examples of the gallery unexecuted.
"""

import ast
import importlib
import inspect
import textwrap
from pathlib import Path

import sktensordp

project = "sktensordp"
author = "The sktensordp developers"
project_copyright = author
version = release = sktensordp.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = [".rst", ".md"]
exclude_patterns = ["_build", "_templates", "auto_examples/*.ipynb"]
templates_path = ["_templates"]
default_role = "literal"

html_theme = "pydata_sphinx_theme"
html_title = f"sktensordp {version}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_theme_options = {
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "show_toc_level": 2,
}
html_sidebars = {"index": []}
copybutton_exclude = ".linenos, .gp, .go"

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
maximum_signature_line_length = 72
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "modules/backreferences",
    "doc_module": ("sktensordp",),
    "inspect_global_variables": False,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
}

# The one list of the reference: the public names are those of `__all__`.
MODULES = [
    "mechanisms", "encoding", "completion", "privacy", "model_selection", "papers",
    "audit", "plotting", "datasets", "exceptions", "noise", "base",
]  # fmt: skip


def write_reference():
    """Write the page of all public names; autosummary makes a page of each."""
    lines = [
        "API reference", "=============", "",
        "What estimators inherit from scikit-learn (``get_params``, ``set_params``,",
        "``set_output``, ``get_metadata_routing`` and so on) is documented there.", "",
    ]  # fmt: skip
    for short in MODULES:
        module = importlib.import_module(f"sktensordp.{short}")
        lines += [
            module.__name__, "-" * len(module.__name__), "",
            inspect.getdoc(module).splitlines()[0], "",
            f".. module:: {module.__name__}", "",
            ".. autosummary::", "   :toctree: generated", "   :template: name.rst", "",
            *(f"   {name}" for name in sorted(module.__all__)), "",
        ]  # fmt: skip
    page = Path(__file__).parent / "modules" / "index.rst"
    page.parent.mkdir(exist_ok=True)
    page.write_text("\n".join(lines))


write_reference()


def is_of_scikit_learn(app, what, name, obj, skip, options):
    """Leave out what is inherited from scikit-learn, which documents it itself."""
    found = inspect.unwrap(obj.fget if isinstance(obj, property) else obj)
    inherited = (getattr(found, "__module__", None) or "").startswith("sklearn.")
    return True if inherited else None


def signature_as_written(app, what, name, obj, options, signature, returns):
    """Show annotations as the code has them, `ArrayLike` and not what it stands for."""
    function = obj.__init__ if inspect.isclass(obj) else obj
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    except (OSError, TypeError):
        return None
    (written,) = ast.parse(source).body[:1]
    if not isinstance(written, ast.FunctionDef):
        return None
    arguments = written.args
    first = [*arguments.posonlyargs, *arguments.args][:1]
    if first and first[0].arg in ("self", "cls"):
        (arguments.posonlyargs or arguments.args).pop(0)
    answer = None
    if written.returns is not None and not inspect.isclass(obj):
        answer = ast.unparse(written.returns)
    return f"({ast.unparse(arguments)})", answer


def setup(app):
    """Say which members the reference leaves out, and how signatures look."""
    app.connect("autodoc-skip-member", is_of_scikit_learn)
    app.connect("autodoc-process-signature", signature_as_written)
