"""Checks commit messages: an area, an imperative of at most 72 characters, a reason where more than one file changes.

python tools/commit_message.py FILE                # a message that is being written: the hook "commit-msg"
python tools/commit_message.py --since origin/main # those of all commits since then
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

LONGEST = 72
# With what no imperative begins: articles, pronouns, numbers, prepositions, comparisons.
_NO_VERBS = frozenset(
    "a an the one two three all both each every some no not only any many more less most least few fewer another other "
    "its their it they this that these those there what which who whose how where when why whether if in on for from "
    "to by with without of at as and or new shorter longer faster".split()
)
# Verbs that end as nouns and participles do.
_VERBS = frozenset(
    "focus bias alias canvas embed feed need seed speed exceed proceed bring string ring mention document implement "
    "comment position partition condition increment decrement complement augment segment function caption".split()
)
_OTHER_FORMS = re.compile(r".*([^s]s|ed|ing|tion|ment)$")
# What git and GitHub write by themselves.
_MADE = re.compile(r"(Merge|Revert|fixup!|squash!) ")


def faults(message: str, files: int) -> list[str]:
    """What a message lacks; `files`: how many the commit changes."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if _MADE.match(subject):
        return []
    found = []
    if len(subject) > LONGEST:
        found.append(f"the subject has {len(subject)} characters, at most {LONGEST} are read")
    area, colon, text = subject.partition(": ")
    if not colon or not area:
        found.append("the subject begins with no area, as in 'kernels: share vector types'")
    else:
        verb = text.split(" ")[0].rstrip(",:;")
        other = verb in _NO_VERBS or not re.fullmatch("[a-z][a-z-]+", verb) or _OTHER_FORMS.match(verb)
        if other and verb not in _VERBS:
            found.append(f"'{verb}' is no imperative: say what the commit does, as in 'share vector types'")
    if len(lines) > 1 and lines[1].strip():
        found.append("the second line is not empty")
    if files > 1 and not any(line.strip() for line in lines[1:]):
        found.append(f"{files} files change, and no body says why")
    return found


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def main(arguments: list[str] | None = None) -> int:
    """Prints the faults; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("file", nargs="?", type=Path, help="a message that is being written")
    given.add_argument("--since", metavar="COMMIT", help="check the commits after this one")
    options = parser.parse_args(arguments)
    if options.file:
        staged = len(_git("diff", "--cached", "--name-only").split())
        messages = [("this commit", options.file.read_text(), staged)]
    else:
        messages = []
        for commit in _git("rev-list", "--no-merges", f"{options.since}..HEAD").split():
            changed = len(_git("show", "--format=", "--name-only", commit).splitlines())
            messages.append((commit[:8], _git("log", "-1", "--format=%B", commit), changed))
    wrong = 0
    for name, message, files in messages:
        for fault in faults(message, files):
            print(f"{name}: {fault}", file=sys.stderr)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
