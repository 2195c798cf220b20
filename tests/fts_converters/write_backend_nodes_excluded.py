"""Write `backend_nodes_excluded.json` anew: `python -m tests.fts_converters.write_backend_nodes_excluded`."""

from __future__ import annotations

import json

from tests.fts_converters.backend_nodes import SURVIVES, all_cases, outcome, versions
from tests.fts_converters.test_backend_nodes import TABLE


def main() -> None:
    outcomes = {str(case.name): outcome(case) for case in all_cases()}
    excluded = {name: reason for name, reason in sorted(outcomes.items()) if reason != SURVIVES}
    table = {"versions": versions(), "cases": len(outcomes), "excluded": excluded}
    TABLE.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
