"""What ``farwrite tensorflow`` does: build, info, analyze and clean."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from farwrite.errors import Error
from farwrite.plugin import cache
from farwrite.plugin.build import ensure_built, find_built
from farwrite.plugin.compiler import find_compiler
from farwrite.plugin.prebuilt import find_prebuilt
from farwrite.plugin.recipe import recipe
from farwrite.plugin.wheel import SUPPORTED, find_wheel, require_supported
from farwrite.units import format_size


def run_build(arguments: argparse.Namespace) -> int:
    """Compile the plug-in if needed, and print its path."""
    print(ensure_built(jobs=arguments.jobs))
    return 0


def run_info(arguments: argparse.Namespace) -> int:
    """Print the facts. The exit status is 1 if the plug-in is unavailable on this machine."""
    del arguments
    usable = True
    for name, (fact, good) in facts():
        print(f"  {name:<12} {fact}")
        usable = usable and good
    return 0 if usable else 1


def run_clean(arguments: argparse.Namespace) -> int:
    """Delete the cache, and print the freed bytes."""
    del arguments
    print(f"freed {format_size(cache.clean())} in {cache.cache_folder()}")
    return 0


def facts() -> Iterator[tuple[str, tuple[str, bool]]]:
    """Yield name, fact, and whether this fact permits the plug-in."""
    built = None
    try:
        wheel = find_wheel()
        yield "TensorFlow", (f"{wheel.version} in {wheel.folder}", True)
        require_supported(wheel)
        yield "supported", (f"yes ({', '.join(SUPPORTED)})", True)
        built = find_built(wheel)
        missing = "not compiled yet; the first use or `farwrite tensorflow build` compiles it"
        yield "plug-in", (missing if built is None else str(built), True)
        prebuilt = find_prebuilt(recipe(wheel))
        if prebuilt is not None and prebuilt.misfit:
            yield "not used", (prebuilt.misfit, True)
    except Error as error:
        yield "supported", (f"no: {error}", False)
    try:
        yield "compiler", (str(find_compiler()), True)
    except Error as error:
        yield "compiler", (f"none: {error}", built is not None)
    count = len(cache.builds())
    held = f"{count} build{'' if count == 1 else 's'}, {format_size(cache.size())}"
    yield "cache", (f"{held} in {cache.cache_folder()}", True)
