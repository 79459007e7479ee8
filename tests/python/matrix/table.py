"""Prints the contract's tables: calls and faults, and what limits the time of a call."""

from __future__ import annotations

import inspect
from typing import Any

from matrix.functions import TABLE
from matrix.kinds import ENDS, FAULTS, FORMS, KINDS, TIMEOUT, UNTIL_CLOSED, Row
from matrix.parameters import owners

SHOWN = ("killed", "closed", "stopped", "shut")


def cell(row: Row, fault: str) -> str:
    """What comes of a call, for a reader."""
    by_fabric = {fabric: row.allowed(fault, fabric) for fabric in ("shm", "tcp")}

    def text(outcomes: tuple[str, ...]) -> str:
        words = [one if one in FORMS else f"`{one}`" for one in outcomes]
        return " or ".join(words)

    shm, tcp = text(by_fabric["shm"]), text(by_fabric["tcp"])
    return shm if shm == tcp else f"{shm}; tcp: {tcp}"


def shown(owner: str, entry: str) -> str:
    return f"`{owner}.{entry}`".replace("`farwrite.", "`")


def table() -> list[str]:
    """The lines: a row for each kind of call, and one for all calls that differ in the same way."""
    lines = [
        f"| call | {' | '.join(FAULTS[fault] for fault in SHOWN)} |",
        f"|---|{'---|' * len(SHOWN)}",
    ]
    usual = {}
    for kind, (_, means, _) in KINDS.items():
        usual[kind] = tuple(cell(Row(kind, None, {}), fault) for fault in SHOWN)
        lines.append(f"| {means} | {' | '.join(usual[kind])} |")
    differing: dict[tuple[str, ...], list[str]] = {}
    for name, rows in TABLE.items():
        for entry, row in rows.items():
            cells = tuple(cell(row, fault) for fault in SHOWN)
            if cells != usual[row.kind]:
                differing.setdefault(cells, []).append(shown(name, entry))
    for cells, names in differing.items():
        lines.append(f"| {', '.join(names)} | {' | '.join(cells)} |")
    return lines


def limits() -> list[str]:
    """The lines of the table of limits."""
    own, completion, until_closed = [], [], []
    classes = owners()
    for name, rows in TABLE.items():
        for entry, row in rows.items():
            found = getattr(classes[name], entry)
            parameters = inspect.signature(found).parameters if callable(found) else {}
            if row.limit == UNTIL_CLOSED:
                until_closed.append(shown(name, entry))
            elif row.limit == TIMEOUT and "timeout" in parameters:
                own.append(shown(name, entry))
            elif row.limit == TIMEOUT and not is_of_a_box(classes[name]):
                completion.append(shown(name, entry))
    return [
        "| what limits its time | calls |",
        "|---|---|",
        f"| its own timeout | {', '.join(own)} |",
        f"| its own timeout, by default {ENDS.default:g} s or more | the end of a handle |",
        f"| it does not wait, or its completion has a timeout | {', '.join(completion)} |",
        f"| nothing: there may be more until its handle is closed | {', '.join(until_closed)} |",
        "| the timeout of its client or helper | every other call that needs the server of a box |",
        "| it does not wait for a peer | every other call |",
    ]


def is_of_a_box(owner: Any) -> bool:
    return getattr(owner, "__module__", owner.__name__).startswith("farwrite.box")


if __name__ == "__main__":
    print("\n".join([*table(), "", *limits()]))
