#!/usr/bin/env python3
"""docs/behaviours.md and the tests agree: every test that a row names exists and carries the row's number as a tag."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROW = re.compile(r"\| ([A-H]\d+(?:[–, ]+[A-H]?\d+)*) \| .*? \| (.*) \|$")
CASE = re.compile(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+),\s*"([^"]*)"\s*\)')


def numbers(text):
    """"A8, A9" and "B5–B7" in full."""
    out = []
    for part in text.split(", "):
        first, _, last = part.partition("–")
        end = int(last.lstrip("ABCDEFGH") or first[1:])
        out += [f"{first[0]}{number}" for number in range(int(first[1:]), end + 1)]
    return out


def cases():
    """name → tags of every Catch2 test."""
    found = {}
    for file in (ROOT / "tests").rglob("*.cpp"):
        for name, tags in CASE.findall(file.read_text()):
            found["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', name))] = tags
    return found


def faults():
    tests, seen = cases(), set()
    for line in (ROOT / "docs" / "behaviours.md").read_text().splitlines():
        row = ROW.match(line)
        if not row:
            continue
        seen.update(numbers(row[1]))
        for quoted in re.findall(r"`([a-z_0-9]+: [^`]*)`", row[2]):
            start = quoted.rstrip("…")
            named = [name for name in tests if name == quoted or (start != quoted and name.startswith(start))]
            if not named:
                yield f"{row[1]}: there is no test `{quoted}`"
            if start.endswith(": "):
                continue  # a whole family
            for name in named:
                yield from (f"`{name}` lacks the tag [{number}]" for number in numbers(row[1]) if f"[{number}]" not in tests[name])
        if row[2] == "missing" or "no test yet" in row[2]:
            yield f"{row[1]}: {row[2]}"
    for letter, last in zip("ABCDEFGH", (46, 23, 13, 7, 12, 9, 8, 12)):
        yield from (f"{letter}{number} has no row" for number in range(1, last + 1) if f"{letter}{number}" not in seen)


if __name__ == "__main__":
    found = list(faults())
    print("\n".join(found) or "docs/behaviours.md is true")
    sys.exit(1 if found else 0)
