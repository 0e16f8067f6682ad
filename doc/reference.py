"""The API reference: what its pages list, and in which order.

numpydoc_docstring.rst has the order of a docstring's sections, and name.rst that of a
page.
"""

import functools
import importlib
import inspect
import pkgutil

from docutils import nodes
from numpydoc.docscrape_sphinx import SphinxDocString
from sphinx import addnodes
from sphinx.pycode import ModuleAnalyzer

# The one list of the reference: the public names are those of `__all__`.
MODULES = [
    "recommend", "completion", "moments", "counts", "mechanisms", "encoding", "privacy",
    "model_selection", "audit", "plotting", "datasets", "io", "papers", "exceptions",
    "noise", "base",
]  # fmt: skip
# What these packages offer to the others; not part of what versions promise.
INSIDE = ["tensor", "measure", "ids"]


def names_of(module):
    """Public names of a module that have their page there, sorted.

    What another listed module defines and offers, too, has its page there; what several
    offer that none of them defines, with the first.
    """
    homes = {f"sktensordp.{short}" for short in MODULES} - {module.__name__}
    first = MODULES[: MODULES.index(module.__name__.rpartition(".")[2])]
    earlier = [importlib.import_module(f"sktensordp.{short}") for short in first]
    return sorted(
        name
        for name in module.__all__
        if ".".join(_defined_in(module, name).split(".")[:2]) not in homes
        and not any(_offers(other, module, name) for other in earlier)
    )


def _offers(other, module, name):
    return name in other.__all__ and getattr(other, name) is getattr(module, name)


def _defined_in(module, name):
    return getattr(getattr(module, name), "__module__", module.__name__)


def public_classes():
    """Yield the public classes, by their full names, in the order of the reference."""
    for short in MODULES:
        module = importlib.import_module(f"sktensordp.{short}")
        for name in names_of(module):
            if inspect.isclass(getattr(module, name)):
                yield f"{module.__name__}.{name}", getattr(module, name)


def methods_of(cls):
    """Public methods of a class, without those of scikit-learn and of Python."""
    return [
        name
        for name, member in inspect.getmembers(cls, inspect.isroutine)
        if not name.startswith("_")
        and (inspect.getdoc(member) or "").strip()
        and not hasattr(Exception, name)
        and not hasattr(tuple, name)
        and not inspect.unwrap(member).__module__.startswith("sklearn.")
    ]


def find_homes():
    """Find the name under which each method of each public class is documented."""
    found, homes = {}, {}
    classes = dict(public_classes())
    public = {cls: full for full, cls in classes.items()}
    for full, cls in classes.items():
        for method in methods_of(cls):
            (of, *_) = (base for base in cls.__mro__ if method in vars(base))
            home = found.setdefault((of, method), public.get(of, full))
            homes[f"{full}.{method}"] = f"{home}.{method}"
    return homes


HOMES = find_homes()
# What several public classes inherit from a base that is not public: on a page of
# its own, where it carries the name of the first of these classes.
SHARED = sorted(
    home
    for home in set(HOMES.values())
    if list(HOMES.values()).count(home) > 1
    and home.split(".")[-1] not in vars(dict(public_classes())[home.rpartition(".")[0]])
)


# By class, the methods that its own page documents.
OWN = {
    full: [
        home.rpartition(".")[2]
        for home in sorted(set(HOMES.values()).difference(SHARED))
        if home.rpartition(".")[0] == full
    ]
    for full, cls in public_classes()
}


def write(folder):
    """Write the page of all public names; autosummary makes a page of each."""
    folder.mkdir(exist_ok=True)
    lines = [
        "API reference", "=============", "",
        "What estimators inherit from scikit-learn (``get_params``, ``set_params``,",
        "``set_output``, ``get_metadata_routing`` and so on) is documented there.", "",
    ]  # fmt: skip
    for short in MODULES:
        module = importlib.import_module(f"sktensordp.{short}")
        lines += [
            short, "-" * len(short), "",
            f"``sktensordp.{short}``: {inspect.getdoc(module).splitlines()[0]}", "",
            f".. module:: {module.__name__}", "",
            ".. autosummary::", "   :toctree: generated", "   :template: name.rst",
            f"   :caption: {short}", "   :nosignatures:", "",
            *(f"   {name}" for name in names_of(module)), "",
        ]  # fmt: skip
        shared = [name for name in SHARED if name.startswith(f"{module.__name__}.")]
        if shared:
            write_shared_methods(folder / f"methods_of_{short}.rst", short, shared)
            lines += [".. toctree::", "   :maxdepth: 1", "", f"   methods_of_{short}"]
            lines += [""]
    lines += [
        "For maintainers", "---------------", "",
        "What these packages offer to the others, for those who read or extend this",
        "one. Any version may change it without a warning.", "",
        ".. toctree::", "   :maxdepth: 1", "   :caption: For maintainers", "",
        *(f"   inside_{short}" for short in INSIDE), "",
    ]  # fmt: skip
    for short in INSIDE:
        write_inside(folder / f"inside_{short}.rst", short)
    (folder / "index.rst").write_text("\n".join(lines))


def write_inside(page, short):
    """Write the page of what a package offers to the others alone."""
    module = importlib.import_module(f"sktensordp.{short}")
    public = {
        id(getattr(part, name))
        for part in (importlib.import_module(f"sktensordp.{one}") for one in MODULES)
        for name in part.__all__
    }
    lines = [short, "=" * len(short), "", inspect.getdoc(module).splitlines()[0], ""]
    lines += ["Any version may change these names without a warning.", ""]
    lines += [f".. currentmodule:: {module.__name__}", ""]
    for name in sorted(module.__all__, key=str.lower):
        found = getattr(module, name)
        if name in comments_in(module):
            value = [f"   :value: {found!r}"] if not callable(found) else []
            lines += [f".. py:data:: {name}", *value]
            lines += ["", f"   {' '.join(comments_in(module)[name])}", ""]
        elif id(found) not in public and inspect.isclass(found):
            lines += [f".. autoclass:: {name}", "   :members:", ""]
        elif id(found) not in public:
            lines += [f".. autofunction:: {name}", ""]
    page.write_text("\n".join(lines))


@functools.cache
def comments_in(module):
    """The texts below the constants of a package, by name."""
    found = {}
    for part in pkgutil.iter_modules(module.__path__, f"{module.__name__}."):
        comments = ModuleAnalyzer.for_module(part.name).find_attr_docs()
        found |= {name: lines for (cls, name), lines in comments.items() if not cls}
    return {name: lines for name, lines in found.items() if name in module.__all__}


def write_shared_methods(page, short, methods):
    """Write a page of methods that classes of a module inherit from a common base."""
    title = f"Inherited methods: {short}"
    lines = [title, "=" * len(title), "", f".. currentmodule:: sktensordp.{short}", ""]
    groups = {}
    for method in methods:
        heirs = [full.rpartition(".")[0] for full in HOMES if HOMES[full] == method]
        groups.setdefault(tuple(heirs), []).append(method)
    for heirs, group in groups.items():
        lines += [f"Of {', '.join(f':class:`~{full}`' for full in heirs)}:", ""]
        for method in group:
            lines += [f".. automethod:: {'.'.join(method.split('.')[-2:])}", ""]
    page.write_text("\n".join(lines))


def list_methods(app, what, name, obj, options, lines):
    """Put a table of a class's methods behind its summary."""
    if what != "class" or name not in OWN or not (methods := methods_of(obj)):
        return
    ends = [n for n, line in enumerate(lines) if line in SECTIONS]
    place = min(ends, default=len(lines))
    lines[place:place] = [
        ".. rubric:: Methods", "", ".. autosummary::", "   :nosignatures:", "",
        *(f"   ~{obj.__name__}.{method}" for method in methods), "",
    ]  # fmt: skip


# How the sections of a docstring begin, after its summary.
SECTIONS = ":Parameters:", ":Attributes:", ":Raises:", ":Warns:", ".. seealso::"
SECTIONS += ".. rubric:: Notes", ".. rubric:: References", ".. rubric:: Examples"


def list_contents(app, document):
    """List the sections, methods and attributes of a class under "On this page"."""
    page = app.env.current_document.docname
    full = page.rpartition("/")[2]
    described = next(document.findall(addnodes.desc_content), None)
    if full not in OWN or not page.startswith("modules/generated/"):
        return
    names = [home for home in HOMES if home.rpartition(".")[0] == full]
    entries = nodes.bullet_list()
    for part in described.children:
        fields = part.children if isinstance(part, nodes.field_list) else []
        heads = [part] if isinstance(part, nodes.rubric) else [f[0] for f in fields]
        for head in heads:
            title = head.astext()
            _name(head, f"{full}-{title.lower()}")
            inside = []
            if title == "Methods":
                inside = [(name.rpartition(".")[2], name) for name in names]
            elif title == "Attributes":
                inside = list(_named_terms(head.parent, full))
            entries += _entry(page, title, head["ids"][-1], inside)
    for row in document.findall(nodes.row):
        name = f"{full}.{row[0].astext().partition('(')[0]}"
        if name in names and HOMES[name] != name:
            _name(row, name)
    (top,) = app.env.tocs[page].children
    top[1:] = [entries]


def _named_terms(field, full):
    """Yield the attributes of a field, and the anchors that they get."""
    for term in field.findall(nodes.term):
        for name in term[0].astext().split(", "):
            _name(term, f"{full}.{name}")
            yield name, f"{full}.{name}"


def _name(node, anchor):
    node["ids"] = [*node["ids"], anchor]


def _entry(page, title, anchor, inside=()):
    """An entry of a table of contents, with those inside it."""
    reference = nodes.reference(
        "", title, internal=True, refuri=page, anchorname=f"#{anchor}"
    )
    item = nodes.list_item("", addnodes.compact_paragraph("", "", reference))
    if inside:
        item += nodes.bullet_list("", *(_entry(page, *one) for one in inside))
    return item


def show_contents(app, pagename, templatename, context, doctree):
    """Show methods and attributes without a click."""
    if pagename.startswith("modules/generated/"):
        context["theme_show_toc_level"] = 3


process_param = SphinxDocString._process_param
# Attributes that are properties, too, have the text of the class's docstring.
SphinxDocString._process_param = lambda self, name, text, _: process_param(
    self, name, text, False
)


def link_to_home(app, env, node, contnode):
    """Link an inherited method to where it is documented, an attribute to its class."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or "." not in target:
        return None
    names = target, f"{node.get('py:module')}.{target}"
    name = next((HOMES[name] for name in names if name in HOMES), None)
    classes = dict(public_classes())
    for full in names:
        cls, _, member = full.rpartition(".")
        if name is None and hasattr(classes.get(cls), member):
            name = cls
    if name is None:
        return None
    domain, page = env.domains.python_domain, node["refdoc"]
    return domain.resolve_xref(env, page, app.builder, "obj", name, node, contnode)


def signature_in_short(app, what, name, obj, options, signature, returns):
    """Show names and defaults; the list of parameters has the types."""
    try:
        found = inspect.signature(obj if inspect.isclass(obj) else inspect.unwrap(obj))
    except (TypeError, ValueError):
        return None
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in found.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return str(inspect.Signature(bare)), None
