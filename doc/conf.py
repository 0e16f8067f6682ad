"""Documentation: `python -m sphinx -W doc doc/_build` builds it, without network.

``-D plot_gallery=0`` leaves the examples of the gallery unexecuted. ``-t papers`` also
executes the experiments of the papers, and keeps their pictures in images/papers. In
other builds, their pages show the pictures that were kept.
"""

import re
import shutil
import sys
import textwrap
import tomllib
from pathlib import Path

from docutils import nodes

import sktensordp

HERE = Path(__file__).parent
PICTURES = HERE / "images" / "papers"
WITH_PAPERS = tags.has("papers")  # noqa: F821, Sphinx defines it
sys.path.insert(0, str(HERE))  # for reference.py and pictures.py
import reference  # noqa: E402

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
exclude_patterns = [
    "_build", "_templates", "auto_examples/*.ipynb", "auto_examples/*/index.rst",
]  # fmt: skip
templates_path = ["_templates"]
default_role = "literal"

html_theme = "pydata_sphinx_theme"
html_title = f"sktensordp {version}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_favicon = "images/favicon.svg"
_source = tomllib.loads((HERE.parent / "pyproject.toml").read_text())
_source = _source["project"]["urls"]["Source"]
html_theme_options = {
    "logo": {
        "image_light": "images/logo.svg",
        "image_dark": "images/logo_dark.svg",
        "text": html_title,
        "alt_text": "Home",
    },
    "header_links_before_dropdown": 6,
    # As long as the address is a placeholder, there is no link to the repository.
    "icon_links": []
    if _source.endswith(".invalid")
    else [{"name": "Repository", "url": _source, "icon": "fa-solid fa-code-branch"}],
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "show_toc_level": 2,
}
_without_sidebar = "index", "getting_started", "changelog", "search", "genindex"
html_sidebars = {page: [] for page in _without_sidebar}
copybutton_exclude = ".linenos, .gp, .go"

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_context = {"own_methods": reference.OWN}
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$" if WITH_PAPERS else r"examples/\w+\.py$",
    # The programs of examples/service, and what examples share: no pages.
    "ignore_pattern": r"^(fit|serve|_\w+)\.py$",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "modules/backreferences",
    "doc_module": ("sktensordp",),
    "inspect_global_variables": False,
    "abort_on_example_error": True,
    "copyfile_regex": r"index\.rst",
    "reset_modules": ("matplotlib", "pictures.transparent"),
    "minigallery_sort_order": "pictures.in_order",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
}


def show_kept_pictures(app, docname, source):
    """Show the kept pictures of an experiment of the papers that was not executed."""
    folder, _, name = docname.rpartition("/")
    if folder != "auto_examples/papers" or WITH_PAPERS:
        return
    title = re.search(r"^(.+)\n=+\n", source[0], re.MULTILINE)
    pictures = sorted(PICTURES.glob(f"{name}_[0-9].png"))
    if title is None or not pictures:
        return
    lines = [
        "", "This experiment is not executed when the documentation is built. "
        "Here is what it drew. :doc:`/results` has its tables.", "",
    ]  # fmt: skip
    for number, picture in enumerate(pictures, start=1):
        lines += [f".. image:: /images/papers/{picture.name}"]
        lines += [f"   :alt: {title[1]}, picture {number}", ""]
    end = title.end()
    source[0] = source[0][:end] + "\n".join(lines) + "\n" + source[0][end:]


def name_thumbnails(app, document):
    """Give thumbnails a text: Sphinx-Gallery leaves it empty."""
    for image in document.findall(nodes.image):
        if not image.get("alt"):
            name = re.search(r"(?:sphx_glr_)?(\w+?)(?:_thumb)?\.", image["uri"])[1]
            image["alt"] = f"What the example {name} draws"


def wrap_sentences(app, document):
    """Wrap the sentences that an example printed; rows of tables stay as they are."""
    for block in document.findall(nodes.literal_block):
        if "sphx-glr-script-out" in block["classes"] + block.parent["classes"]:
            lines = [
                line if "  " in line.strip() else textwrap.fill(line, 88)
                for line in block.astext().split("\n")
            ]
            block[:] = [nodes.Text("\n".join(lines))]
            block.rawsource = block.astext()


def keep_pictures(app, exception):
    """Keep the pictures of the papers' experiments, if they were executed."""
    made = HERE / "auto_examples" / "papers" / "images"
    if exception or not WITH_PAPERS or not int(app.config.plot_gallery):
        return
    PICTURES.mkdir(exist_ok=True)
    for script in (HERE.parent / "examples" / "papers").glob("*.py"):
        drawn = sorted(made.glob(f"sphx_glr_{script.stem}_[0-9]*.png"))
        for number, picture in enumerate(drawn, start=1):
            shutil.copy(picture, PICTURES / f"{script.stem}_{number}.png")


def setup(app):
    """Connect what completes the reference, the papers' pages and thumbnails."""
    reference.write(HERE / "modules")
    app.connect("autodoc-process-docstring", reference.list_methods, priority=900)
    app.connect("autodoc-process-signature", reference.signature_in_short)
    app.connect("missing-reference", reference.link_to_home)
    app.connect("source-read", show_kept_pictures)
    app.connect("doctree-read", name_thumbnails)
    app.connect("doctree-read", wrap_sentences)
    app.connect("doctree-read", reference.list_contents, priority=900)
    app.connect("html-page-context", reference.show_contents)
    app.connect("build-finished", keep_pictures)
