"""A data migration with a child saga for each table: all tables get their new shape, or none does.

    python examples/shop_migration/migrate.py            # the orders do not fit: every table comes back, row for row
    python examples/shop_migration/migrate.py --repair   # the orders are repaired first: it passes

Each child saves its table, fills a new one beside it, and swaps the two, three steps that a child takes back in
reverse. The database is a real SQLite file (MIGRATION_DATA), the journal another (AMENDS_JOURNAL): kill it anywhere,
run `python examples/shop_migration/migrate.py --resume`, and it ends in one of the two ways.
"""

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from amends import Asked, Coordinator, Done, Ended, Fatal, Happened, NotHappened, Work, action, child, saga

DATA = Path(os.environ.get("MIGRATION_DATA", "shop.db"))
JOURNAL = os.environ.get("AMENDS_JOURNAL", "amends.db")
TABLES = ("customers", "orders", "refunds")


def connected() -> "closing[sqlite3.Connection]":
    return closing(sqlite3.connect(DATA, timeout=30, isolation_level=None))


def make_shop() -> None:
    """Three tables whose amounts are texts in euros; one order has none that could be read."""
    with connected() as shop:
        shop.execute("BEGIN IMMEDIATE")
        for table in TABLES:
            shop.execute(f"CREATE TABLE IF NOT EXISTS {table} (id INTEGER PRIMARY KEY, amount TEXT NOT NULL)")
            rows = [(number, f"{number}.50") for number in range(1, 201)]
            shop.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", rows)
        shop.execute("UPDATE orders SET amount = 'about ten' WHERE id = 180 AND amount = '180.50'")
        shop.execute("COMMIT")


def repair_orders() -> None:
    with connected() as shop:
        shop.execute("UPDATE orders SET amount = '10.00' WHERE amount = 'about ten'")


# -- the steps of one table: each is one transaction, so it happened or it did not ------------------------------------


@action("table.fill", idempotent=True, atomic=True)
def fill_new(table: str) -> int:
    """Fill a table of the new shape, with amounts in cents, beside the old one."""
    with connected() as shop:
        shop.execute("BEGIN IMMEDIATE")
        shop.execute(f"DROP TABLE IF EXISTS new_{table}")
        shop.execute(f"CREATE TABLE new_{table} (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)")
        for row, amount in shop.execute(f"SELECT id, amount FROM {table}").fetchall():
            try:
                cents = round(float(amount) * 100)
            except ValueError:
                raise Fatal(f"{table} {row}: {amount!r} is no amount", happened=False) from None
            shop.execute(f"INSERT INTO new_{table} VALUES (?, ?)", (row, cents))
        (count,) = shop.execute(f"SELECT count(*) FROM new_{table}").fetchone()
        shop.execute("COMMIT")
    return int(count)


@fill_new.compensation
def drop_new(done: Done) -> None:
    """Drop the table of the new shape."""
    with connected() as shop:
        shop.execute(f"DROP TABLE IF EXISTS new_{done.args['table']}")


@fill_new.probe
def is_filled(asked: Asked) -> Happened | NotHappened:
    """The new table is there, or has been swapped in."""
    table = asked.args["table"]
    with connected() as shop:
        swapped = exists(shop, f"old_{table}")
        if not swapped and not exists(shop, f"new_{table}"):
            return NotHappened()
        (count,) = shop.execute(f"SELECT count(*) FROM {table if swapped else f'new_{table}'}").fetchone()
    return Happened(int(count))


@action("table.swap", idempotent=True, atomic=True)
def swap(table: str) -> None:
    """Put the new table in the old one's place, and keep the old one beside it."""
    with connected() as shop:
        shop.execute("BEGIN IMMEDIATE")
        if exists(shop, f"new_{table}"):  # else an attempt before this one has done it
            shop.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
            shop.execute(f"ALTER TABLE new_{table} RENAME TO {table}")
        shop.execute("COMMIT")


@swap.compensation
def swap_back(done: Done) -> None:
    """Put the old table back in its place."""
    table = done.args["table"]
    with connected() as shop:
        shop.execute("BEGIN IMMEDIATE")
        if exists(shop, f"old_{table}"):
            shop.execute(f"ALTER TABLE {table} RENAME TO new_{table}")
            shop.execute(f"ALTER TABLE old_{table} RENAME TO {table}")
        shop.execute("COMMIT")


@swap.probe
def is_swapped(asked: Asked) -> Happened | NotHappened:
    with connected() as shop:
        return Happened() if exists(shop, f"old_{asked.args['table']}") else NotHappened()


def exists(shop: sqlite3.Connection, table: str) -> bool:
    return shop.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone() is not None


# -- the sagas --------------------------------------------------------------------------------------------------------


@saga("table.migrate")
async def migrate_table(s: Work, table: str) -> int:
    count = await s.do(fill_new, table)
    await s.do(swap, table)
    return count


@saga("shop.migrate")
async def migrate(s: Work) -> dict[str, int]:
    """One child for each table, side by side. If one fails, the others are taken back."""
    counts = await s.call_all([child(migrate_table, table) for table in TABLES])
    return dict(zip(TABLES, counts, strict=True))


def rows() -> dict[str, list[tuple[object, ...]]]:
    """Every table that there is, row for row."""
    with connected() as shop:
        tables = [name for (name,) in shop.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {table: shop.execute(f"SELECT * FROM {table} ORDER BY id").fetchall() for table in tables}


async def main(words: list[str]) -> None:
    if "--resume" not in words:
        make_shop()
    if "--repair" in words:
        repair_orders()
    before = rows()
    async with Coordinator.open(JOURNAL) as coordinator:
        if "--resume" in words:
            await coordinator.resume()
            for row in await coordinator.list(definition="shop.migrate"):
                print(f"{row.id}: {row.status}")
            return
        ended: Ended = await coordinator.run(migrate, actor="agent:migrator")
    print(f"{ended.status}: {ended.result or ended.why}")
    print(f"the data is as it was: {rows() == before}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
