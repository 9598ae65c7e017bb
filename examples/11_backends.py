# Use backends, a database within a scope and a folder of documents, as tools. Queries are checked before they run.
# Prints the result of each query, and the refusal of a query to a table outside of the scope.

import asyncio
import os
import sqlite3
from pathlib import Path

from mainstay import Agent, Config, ToolFinished
from mainstay.backends.documents.manifest import DocumentsSettings
from mainstay.backends.sql.manifest import SqlScope, SqlSettings
from mainstay.config.schema import PolicySettings

HERE = Path.cwd()


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    config = Config(
        backends={
            "shop": SqlSettings(url=f"sqlite:///{HERE}/shop.db", scope=SqlScope(tables=("orders",))),
            "handbook": DocumentsSettings(path=f"{HERE}/handbook"),
        },
        policy=PolicySettings(allow=("shop__*", "handbook__*")),  # a backend without a rule is not opened
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
