"""Set the standby that answers a cell's reads, as DATABASE_READ_URL does for home."""

import asyncpg
from msgspec.structs import replace

import sql
from commands.cells.add import alone, wrong
from runtime.cells.addresses import as_role_of, schema_of, with_search_path
from runtime.cells.directory import own_number, read_cells, seal_addresses
from runtime.postgres import connect
from runtime.seal import Seal
from sql import Connection

_set_addresses = sql.run("cell_owner.set_addresses")


async def set_standby(home: Connection, name: str, dsn: str | None, *, seal: Seal) -> str:
    """Read lists, sums, pages and files of the cell from the standby at `dsn`, or from the primary with None. Only the
    servers and database of `dsn` are used; the role is the application's, and the schema is the cell's. Each process
    follows within two seconds. Returns the address, with role and password; "" for none. Refused(VALIDATION_ERROR) with
    fields.name or fields.dsn; also raises asyncpg's errors."""
    async with alone(home):
        cell = next((each for each in await read_cells(home, seal) if each.name == name), None)
        if cell is None:
            raise wrong("name", f"there is no cell {name}; home's standby is DATABASE_READ_URL")
        if cell.next is not None:
            raise wrong("name", f"{name} is being moved")
        url = cell.addresses.database_url
        read_url = "" if dsn is None else with_search_path(as_role_of(dsn, url), schema_of(url))
        if read_url:
            conn = await connect(read_url, target="any")
            try:
                number = await own_number(conn)
            except asyncpg.UndefinedTableError:
                raise wrong("dsn", f"this is no standby of {name}: it has no such schema") from None
            finally:
                await conn.close()
            if number != cell.number:
                raise wrong("dsn", f"this is no standby of {name}: it is cell {number}")
        addresses = replace(cell.addresses, read_url=read_url)
        await _set_addresses(home, number=cell.number, addresses_sealed=seal_addresses(addresses, cell.number, seal))
        return read_url
