#!/usr/bin/env python3
"""Count the lines of the trusted core, which doc/architecture.md lists.

    python doc/make_core.py

The page says which modules are in the core, in the first cells of its tables. The
script writes their lines into the last cells, and the sums into the first table.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "doc" / "architecture.md"
PACKAGE = ROOT / "sktensordp"
HEADING = "## The trusted core\n"
ROW = re.compile(r"^\| (?P<modules>`.*?`) \|(?P<rest>.*)\| (?P<lines>[\d,]+) \|$")
SUM = re.compile(
    r"^\| (shared by all releases|kinds of release|the core|the package) \|.*$"
)


def section_of(text):
    """The text before the section on the core, the section, and the text after it."""
    before, after = text.split(HEADING)
    section, following = re.split(r"^(?=## )", after, maxsplit=1, flags=re.MULTILINE)
    return before + HEADING, section, following


def files_of(cell):
    """Modules in a cell of the table, a folder standing for all below it."""
    for name in re.findall(r"`([\w/.]+)`", cell):
        path = PACKAGE / name
        yield from sorted(path.rglob("*.py")) if name.endswith("/") else [path]


def parts_of(section):
    """The name of each part of the core, and the rows of its table."""
    for part in re.split(r"^### ", section, flags=re.MULTILINE)[1:3]:
        heading, *lines = part.splitlines()
        yield heading.lower(), list(filter(None, map(ROW.match, lines)))


def core(section):
    """Paths of all modules of the core, below the package, in the order to read."""
    cells = [row["modules"] for _, rows in parts_of(section) for row in rows]
    files = [path for cell in cells for path in files_of(cell)]
    return [path.relative_to(PACKAGE).as_posix() for path in files]


def lines_of(paths):
    """Number of lines of files, without the empty ones."""
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return sum(bool(line.strip()) for text in texts for line in text.splitlines())


def rounded(number, to):
    """A number as the page has it."""
    return f"{max(round(number / to), 1) * to:,}"


def filled(text):
    """The page with the lines as they are."""
    before, section, after = section_of(text)
    sums = {
        name: lines_of([path for row in rows for path in files_of(row["modules"])])
        for name, rows in parts_of(section)
    }
    sums["the core"] = sum(sums.values())
    sums["the package"] = lines_of(PACKAGE.rglob("*.py"))

    def with_lines(line):
        if row := ROW.match(line):
            lines = rounded(lines_of(files_of(row["modules"])), 10)
            return f"| {row['modules']} |{row['rest']}| {lines} |"
        if row := SUM.match(line):
            return f"| {row[1]} | {rounded(sums[row[1]], 100)} |"
        return line

    return before + "\n".join(map(with_lines, section.split("\n"))) + after


def main():
    """Write the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
