"""Install version 0.2 as `metricldp_oracle` beside the package under test: `make oracle`.

The source comes from the repository's own history, at the commit in `oracle_commit.txt`. Imports,
module paths in strings and the entry-point group are renamed. Format keys and seed strings stay,
because fingerprints and random words depend on them.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tokenize
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COMMIT = (HERE / "oracle_commit.txt").read_text("utf-8").strip()
OLD, NEW = "metricldp", "metricldp_oracle"
GROUP = "metricldp.mechanisms"


def main() -> None:
    """Unpack the old source, rename it and install it into the environment that runs this."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        unpack(root)
        package = (root / "src" / OLD).rename(root / "src" / NEW)
        modules = module_names(package)
        for path in package.rglob("*.py"):
            path.write_text(renamed(path.read_text("utf-8"), modules), "utf-8")
        (root / "pyproject.toml").write_text(project(root), "utf-8")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", "--no-deps", "--force-reinstall", folder], check=True)
    print(f"metricldp_oracle is version 0.2 at commit {COMMIT[:12]}")


def unpack(folder: Path) -> None:
    """Extract the package of the recorded commit from the history of this repository."""
    command = ["git", "-C", str(ROOT), "archive", COMMIT, "src", "pyproject.toml"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        sys.exit(
            f"commit {COMMIT[:12]} is not in this repository's history; "
            "fetch the whole history (git fetch --unshallow) and run make oracle again"
        )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")


def module_names(package: Path) -> set[str]:
    """Return the dotted names of all modules and subpackages, under the old name."""
    paths = [path.relative_to(package).with_suffix("") for path in package.rglob("*.py")]
    names = {".".join((OLD, *path.parts)).removesuffix(".__init__") for path in paths}
    return names - {OLD}


def renamed(source: str, modules: set[str]) -> str:
    """Rename imports, and strings that are a module path or the entry-point group."""
    source = re.sub(rf"(?m)^(\s*(?:from|import) ){OLD}\b", rf"\g<1>{NEW}", source)
    lines = source.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for token in reversed(tokens):
        # Bytes literals are keys of file formats, which keep their names.
        text = token.string[1:-1] if token.string[:1] in "'\"" else ""
        if token.type == tokenize.STRING and (text in modules or text in (GROUP, f"{OLD}.")):
            row, start, end = token.start[0] - 1, token.start[1], token.end[1]
            new = token.string.replace(f"{OLD}.", f"{NEW}.")
            lines[row] = lines[row][:start] + new + lines[row][end:]
    return "".join(lines)


def project(root: Path) -> str:
    """Return a pyproject.toml for the renamed package, with its entry points and data files."""
    old = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    entries = old["project"]["entry-points"][GROUP]
    renamed_entries = [f'{name} = "{NEW}{path[len(OLD) :]}"' for name, path in entries.items()]
    data = old["tool"]["setuptools"]["package-data"][OLD]
    return "\n".join(
        [
            "[build-system]",
            'requires = ["setuptools>=77"]',
            'build-backend = "setuptools.build_meta"',
            "[project]",
            f'name = "{NEW.replace("_", "-")}"',
            f'version = "{old["project"]["version"]}"',
            f'[project.entry-points."{GROUP.replace(OLD, NEW)}"]',
            *renamed_entries,
            "[tool.setuptools.packages.find]",
            'where = ["src"]',
            "[tool.setuptools.package-data]",
            f"{NEW} = {data}",
        ]
    )


if __name__ == "__main__":
    main()
