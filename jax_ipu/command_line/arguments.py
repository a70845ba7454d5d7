"""How commands and their options are declared: help with examples, errors that name what was probably meant."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jax_ipu import names
from jax_ipu.command_line.output import INVALID

# What other tools call the options of these commands.
_ALSO_CALLED = {
    "--arch": "--target",
    "--chip": "--target",
    "--device": "--target",
    "--ipu-version": "--target",
    "--model": "--target",
    "--args": "--arg",
    "--batch-size": "--batch",
    "--devices": "--num-ipus",
    "--ipus": "--num-ipus",
    "--replicas": "--num-ipus",
    "--out": "--output",
    "--batch": "--start",  # of largest-batch
}
_VALUE = re.compile(r"argument (.*): ignored explicit argument ('.*')")
_CHOICE = re.compile(r"argument (.*): invalid choice: '(.*)' \(choose from (.*)\)", re.S)


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with examples.

    `examples`: command lines, as users write them. Commands below it have parsers of this class, too.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self._examples = tuple(examples)
        self.set_defaults(parser=self)  # of the command that was named last

    def format_help(self) -> str:
        lines = [f"  {example}" for example in self._examples]
        return super().format_help() + ("\n".join(["\nexamples:", *lines, ""]) if lines else "")

    def error(self, message: str) -> NoReturn:
        if choice := _CHOICE.fullmatch(message):
            what, name, known = choice[1], choice[2], re.findall(r"[\w-]+", choice[3])
            message = f"there is no {what} {name}. {names.suggestion(name, known)}"
        message = _VALUE.sub(r"\1 takes no value, but was given \2", message)
        self.print_usage(sys.stderr)
        self.exit(INVALID, f"{self.prog}: error: {message}\nSee {self.prog} --help.\n")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Ends the process because of arguments that no parser knows."""
        known = [option for action in self._actions for option in action.option_strings]
        hints, of_an_option = [], False
        for one in unknown:
            name = one.partition("=")[0]
            if one.startswith("-"):
                meant = _meant(name, known)
                hints.append(f"{one}: did you mean {meant}?" if meant else f"{one}: no option of {self.prog}")
            elif not of_an_option and "--arg" in known:
                given = f"{one}: an argument of the function is given as --arg {one}"
                asked = (
                    "an argument of the function is given as --arg TYPE[SHAPE], such as --arg 'f32[128,784]', the"
                    " function as FILE.py:FUNCTION"
                )
                hints.append(given if "[" in one else asked)
            of_an_option = one.startswith("--") and "=" not in one  # what follows may be its value
        self.error(". ".join([f"unknown arguments: {' '.join(unknown)}", *dict.fromkeys(hints)]))


def _meant(name: str, known: Sequence[str]) -> str | None:
    """The option that was probably meant by one that does not exist; None if there is none."""
    other = _ALSO_CALLED.get(name)
    if other in known:
        return other
    # Dashes make all options alike.
    letters = {option.lstrip("-"): option for option in known if option.startswith("--")}
    nearest = names.nearest(name.lstrip("-"), letters)
    return None if nearest is None else letters[nearest]


def add_command(commands: Any, name: str, text: str, examples: Sequence[str], **options: Any) -> Any:
    """Adds a command; `text` is a sentence without its capital and its full stop, which help shows in both places."""
    return commands.add_parser(name, help=text, **{"description": sentence(text), **options}, examples=examples)


def sentence(text: str) -> str:
    """The text with a capital at its beginning, and a full stop; other capitals, as in IPU, stay."""
    return f"{text[:1].upper()}{text[1:]}."


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds the option that all commands have."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_target(parser: argparse.ArgumentParser) -> None:
    """Adds the option of the chip. The names are not in the help: the table of chips is in the extension."""
    parser.add_argument(
        "--target",
        metavar="CHIP[:TILES]",
        help="a chip, such as bow, or a chip and its number of tiles, ipu2:16; by default the configured one; jax-ipu"
        " info lists the chips",
    )


def number(least: int) -> Callable[[str], int]:
    """The type of an option that is a whole number of at least this."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
        return value

    return parse


positive = number(1)
