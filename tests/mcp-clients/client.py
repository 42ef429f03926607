"""Lists and uses the tools and the resources of a server, and prints the answers as one JSON object.

    client.py MODE COMMAND ARG…

MODE is `auto`, `legacy` or a revision of the protocol that needs no handshake.
"""

import json
import sys

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters


async def main(mode: str, command: str, *args: str) -> None:
    told = []

    async def on_progress(progress, total, message):
        told.append(progress)

    # The directories of the test are in its arguments, and nothing else of it is needed.
    server = StdioServerParameters(command=command, args=list(args))
    async with Client(server, mode=mode) as client:
        tools = await client.list_tools()
        found = await client.call_tool("grep", {"pattern": "needle"})
        wrong = await client.call_tool("grep", {"pattern": 7})
        structured = await client.call_tool("count", {})
        slow = await client.call_tool("slow", {}, progress_callback=on_progress)
        resources = await client.list_resources()
        read = await client.read_resource(str(resources.resources[0].uri))
        answers = {
            "revision": client.protocol_version,
            "tools": [tool.name for tool in tools.tools],
            "found": found.content[0].text,
            "wrong": wrong.is_error,
            "structured": structured.structured_content,
            "slow": slow.content[0].text,
            "progress": len(told) > 0,
            "read": read.contents[0].text,
        }
    print(json.dumps(answers))


anyio.run(main, *sys.argv[1:])
