"""Reports as one HTML file: the data compressed inside, with the program that shows it. It needs no network."""

from __future__ import annotations

import base64
import html
import zlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from jax_ipu import _ipu

# Of deflate: higher levels take several times as long for a few percent.
_LEVEL = 1
_SCRIPT, _STYLE = "report.js", "report.css"


class NoFrontEnd(RuntimeError):
    """The program that shows reports is not part of this installation.

    Examples:
        Data can be saved without it:

        >>> from jax_ipu.reports.html import NoFrontEnd
        >>> issubclass(NoFrontEnd, RuntimeError)
        True
    """


def page(report: Mapping[str, Any], second: Mapping[str, Any] | None = None) -> str:
    """The page of one report, or the one that compares two.

    Raises:
        NoFrontEnd: the installation lacks the program that shows reports.
    """
    script, style = _asset(_SCRIPT), _asset(_STYLE)
    title = report["program"]["name"]
    if second is not None:
        title += f" and {second['program']['name']}"
    data = [_data("report-data", report)]
    if second is not None:
        data.append(_data("report-data-2", second))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="app"></div>\n' + "\n".join(data) + f"\n<script>{script}</script>\n</body>\n</html>\n"
    )


def text_of(report: Mapping[str, Any]) -> str:
    """A report as JSON. Its arrays may be `_ipu.Integers`.

    Raises:
        TypeError: something in it is not in JSON.
        ValueError: a number is infinite or NaN, or a string is not valid Unicode.
    """
    return _ipu.json_text(dict(report)).decode()


def _data(name: str, report: Mapping[str, Any]) -> str:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    compressed = compressor.compress(_ipu.json_text(dict(report))) + compressor.flush()
    encoded = base64.b64encode(compressed).decode()
    return f'<script type="application/octet-stream;base64" id="{name}">{encoded}</script>'


def _asset(name: str) -> str:
    try:
        text = (resources.files("jax_ipu.reports") / "assets" / name).read_text("utf-8")
    except FileNotFoundError as error:
        raise NoFrontEnd(
            f"jax_ipu/reports/assets/{name} is missing: this installation has no front end for reports. Build it in "
            'the folder report/ of the sources ("npm ci && npm run build"), or save the report as .json'
        ) from error
    # Nothing inside may end the element.
    return text.replace("</script", "<\\/script").replace("</style", "<\\/style")
