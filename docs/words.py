"""Print the length and the readability of each page: `python docs/words.py [PAGE...]`."""

import math
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent


def without_code(text: str) -> str:
    """A page without blocks of code and templates."""
    text = re.sub(r"^```.*?^```$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^\{\{.*$", "\n", text, flags=re.MULTILINE)


def words(text: str) -> list[str]:
    """The words of a page with its headings and tables; code between backticks is one word."""
    text = re.sub(
        r"\]\([^)]*\)|</?[a-zA-Z][^>]*>", " ", re.sub(r"`[^`]+`", "code", without_code(text))
    )
    return re.findall(r"[^\W_](?:[\w'’.,/^-]*\w)?%?", text)


def sentences(text: str) -> list[list[str]]:
    """The words of each sentence, without headings and tables."""
    text = re.sub(r"^(?:\||#|<).*$", "\n", without_code(text), flags=re.MULTILINE)
    text = re.sub(r"^ *(?:[-*]|\d+\.) ", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]+`", "code", text)
    parts = re.split(r"\n\s*\n|(?<=[.!?:;])[*_]* +(?=\W*[A-Z]|code\b)|(?<=[.!?:;])\n", text)
    return [found for part in parts if (found := words(part))]


def syllables(word: str) -> int:
    """Groups of vowels, without a silent e."""
    stem = re.sub(r"(?<=[^aeiouy])(?<![bcdfgkpt]l)e$|(?<=[^aeioutd])ed$", "", word.lower())
    return max(1, len(re.findall(r"[aeiouy]+", stem)))


def reading_ease(text: str) -> float:
    """The Flesch reading ease: 60 to 70 is plain English, below 30 is hard to read."""
    parts = sentences(text)
    every = [word for part in parts for word in part]
    if not every:
        return math.nan
    per_word = sum(map(syllables, every)) / len(every)
    return 206.835 - 1.015 * len(every) / len(parts) - 84.6 * per_word


def main() -> None:
    """A line for each page, and the sum."""
    pages = [Path(name) for name in sys.argv[1:]] or sorted(DOCS.rglob("*.md"))
    print(f"{'page':28}{'words':>8}{'longest sentence':>19}{'reading ease':>15}")
    total, longest, every = 0, 0, ""
    for path in pages:
        text = path.read_text("utf-8")
        number, most = len(words(text)), max(map(len, sentences(text)), default=0)
        print(f"{path.name:28}{number:>8,}{most:>19}{reading_ease(text):>15.0f}")
        total, longest, every = total + number, max(longest, most), f"{every}\n\n{text}"
    print(f"{'all pages':28}{total:>8,}{longest:>19}{reading_ease(every):>15.0f}")


if __name__ == "__main__":
    main()
