"""Runs the command line as ``python -m farwrite``."""

from __future__ import annotations

import sys

from farwrite.cli import main

sys.exit(main())
