# Data as tools: a database, within a scope, and a folder of texts. What the model writes is judged before it runs.
# Prints what each of its questions was answered with, and how one about a table that was not granted was refused.

import asyncio
import os
import sqlite3
from pathlib import Path

from mainstay import Agent, Config, ToolFinished
from mainstay.config.schema import PolicySettings
from mainstay.config.schema_external_tools import BackendEntry, ScopeSettings

HERE = Path.cwd()


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    config = Config(
        backends={
            "shop": BackendEntry(kind="sql", url=f"sqlite:///{HERE}/shop.db", scope=ScopeSettings(tables=("orders",))),
            "handbook": BackendEntry(kind="documents", path=f"{HERE}/handbook"),
        },
        policy=PolicySettings(allow=("shop__*", "handbook__*")),  # what no rule names is not even opened
    )
    async with Agent(model=model, home="data", config=config) as agent:
        prompt = "Who ordered for the most, may they send it back, and what do we pay the staff?"
        async for event in agent.stream("shop", prompt):
            match event:
                case ToolFinished(result=result):
                    print(f"{result.name} -> {result.content}")


with sqlite3.connect("shop.db") as shop:
    shop.executescript("""
        DROP TABLE IF EXISTS orders; CREATE TABLE orders (customer TEXT, euros REAL);
        INSERT INTO orders VALUES ('Ada', 12.5), ('Bo', 80), ('Ada', 30);
        DROP TABLE IF EXISTS staff; CREATE TABLE staff (name TEXT, salary INTEGER);
        INSERT INTO staff VALUES ('Eve', 99000);
    """)
Path("handbook").mkdir(exist_ok=True)
Path("handbook", "returns.md").write_text("# Returns\nWhatever was ordered may be sent back within 30 days.\n")
asyncio.run(main())
