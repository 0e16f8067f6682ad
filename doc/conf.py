"""Documentation: `python -m sphinx -W doc doc/_build` builds it, without network.

``-D plot_gallery=0`` leaves the examples of the gallery unexecuted.
"""

import importlib
import inspect
import tempfile
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
    "sphinx_gallery.gen_gallery",
]
source_suffix = [".rst", ".md"]
exclude_patterns = ["_build", "_templates", "auto_examples/*.ipynb"]
templates_path = ["_templates"]
default_role = "literal"
suppress_warnings = ["config.cache"]  # of arguments_of, which is a function

html_theme = "pydata_sphinx_theme"
html_title = f"sktensordp {version}"
html_show_sourcelink = False
html_theme_options = {"show_prev_next": False, "secondary_sidebar_items": ["page-toc"]}

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Examples that the gallery runs, and with which arguments; the others take long, or
# need data or other environments. The tables of results.md are made by larger runs.
RUN = {
    "audit_claims": "",
    "choose_epsilon": "",
    "complete_ratings": "--random-state 0",
    "covariance": "--random-state 0",
    "directional_digits": "--random-state 0 --folds 3",
    "federated_gradients": "--random-state 0 --runs 2",
    "federated_ratings": "--random-state 0",
    "hourly_counts": "--random-state 0",
    "local_digits": "--random-state 0 --splits 2",
    "local_mean": "--random-state 0 --users 2000",
    "mechanism_errors": "--random-state 0 --shapes 2 --values 200000",
    "private_gradients": "--runs 3",
    "private_test_features": "--random-state 0",
    "recommend_from_choices": "--random-state 0",
    "simulation_study": "--realisations 3",
    "task_aware": "--random-state 0 --splits 1",
    "tensor_response": "--random-state 0 --splits 2 --type 2",
    "user_privacy": "--random-state 0 --users 3000",
    "vertical_features": "--random-state 0 --runs 2",
    "which_claims": "--random-state 0 --trials 20000",
}  # fmt: skip


def arguments_of(gallery, script):
    """Arguments of an example, whose picture the gallery takes and keeps no file of."""
    file = Path(script["src_file"])
    arguments = RUN.get(file.stem, "").split()
    if "--output" in file.read_text():
        arguments += ["--output", str(Path(tempfile.gettempdir(), f"{file.stem}.png"))]
    return arguments


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": rf"/({'|'.join(RUN)})\.py",
    "reset_argv": arguments_of,
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
    "mechanisms", "encoding", "completion", "privacy", "model_selection", "audit",
    "plotting", "datasets", "exceptions", "noise", "base",
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
            f".. currentmodule:: {module.__name__}", "",
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


def setup(app):
    """Say which members the reference leaves out."""
    app.connect("autodoc-skip-member", is_of_scikit_learn)
