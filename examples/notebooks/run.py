"""Run the notebooks beside this file anew, in order, and write their outputs into them.

`python run.py` does it for all, `python run.py --into FOLDER` leaves them alone and writes copies.
Nothing of the machine or of the time stays in them.
"""

import argparse
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
SECONDS = 120
"""Of one cell, on a busy machine."""


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of today; a cell that fails raises its error."""
    book = nbformat.read(path, as_version=4)
    for cell in book.cells:
        cell.metadata = nbformat.NotebookNode()
    with tempfile.TemporaryDirectory() as folder:  # what a cell writes goes there
        how = {"timeout": SECONDS, "record_timing": False, "coalesce_streams": True}
        NotebookClient(book, resources={"metadata": {"path": folder}}, **how).execute()
    book.metadata = nbformat.from_dict(METADATA)
    nbformat.validate(book)
    return book


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=HERE, help="a folder for copies")
    into = parser.parse_args().into
    for path in sorted(HERE.glob("*.ipynb")):
        nbformat.write(executed(path), into / path.name)


if __name__ == "__main__":
    main()
