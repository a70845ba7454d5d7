"""What the tools of XProf say of a profile: a JSON object from names of tools to their data."""

import json
import sys

from xprof.convert import raw_to_tool_data

TOOLS = ("trace_viewer@", "overview_page", "op_profile", "hlo_stats", "roofline_model", "framework_op_stats")


def main(path: str) -> None:
    answers = {}
    for tool in TOOLS:
        data, _ = raw_to_tool_data.xspace_to_tool_data([path], tool, {"tqx": "", "host": "", "group_by": "program"})
        answers[tool] = data.decode() if isinstance(data, bytes) else data
    print(json.dumps(answers))


main(sys.argv[1])
