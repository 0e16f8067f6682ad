"""Which build of this package runs: a hash of its code."""

from functools import cache
from hashlib import sha256
from pathlib import Path


@cache
def build() -> str:
    """Hash of the code of the installed package: 12 hexadecimal digits.

    Two builds with the same version have different hashes if a line of code differs.
    It is computed once in a process, from the files as they are then. "unknown" if the
    package is not installed as files.
    """
    root, digest = Path(__file__).parent, sha256()
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*.py")}
    if not files:
        return "unknown"
    for name in sorted(files):
        # Line ends differ between checkouts.
        content = files[name].read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]
