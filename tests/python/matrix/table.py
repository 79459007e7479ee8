"""Prints the contract's table of calls and faults."""

from __future__ import annotations

from matrix.calls import ROWS
from matrix.kinds import FAULTS, FORMS, KINDS, Row

SHOWN = ("killed", "closed", "stopped", "shut")


def cell(row: Row, fault: str) -> str:
    """What comes of a call, for a reader."""
    by_fabric = {fabric: row.allowed(fault, fabric) for fabric in ("shm", "tcp")}

    def text(outcomes: tuple[str, ...]) -> str:
        words = [one if one in FORMS else f"`{one}`" for one in outcomes]
        return " or ".join(words)

    shm, tcp = text(by_fabric["shm"]), text(by_fabric["tcp"])
    return shm if shm == tcp else f"{shm}; tcp: {tcp}"


def table() -> list[str]:
    """The lines: a row for each kind of call, and one for all calls that differ in the same way."""
    lines = [
        f"| call | {' | '.join(FAULTS[fault] for fault in SHOWN)} |",
        f"|---|{'---|' * len(SHOWN)}",
    ]
    usual = {}
    for kind, (_, means) in KINDS.items():
        usual[kind] = tuple(cell(Row(kind, None, {}), fault) for fault in SHOWN)
        lines.append(f"| {means} | {' | '.join(usual[kind])} |")
    differing: dict[tuple[str, ...], list[str]] = {}
    for name, rows in ROWS.items():
        for entry, row in rows.items():
            cells = tuple(cell(row, fault) for fault in SHOWN)
            if cells != usual[row.kind]:
                differing.setdefault(cells, []).append(f"`{name}.{entry}`")
    for cells, names in differing.items():
        lines.append(f"| {', '.join(names)} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
