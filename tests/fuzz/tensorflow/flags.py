"""Prints the flags, one a line, with which Farwrite compiles or links for the installed TensorFlow.

python flags.py compile|link
"""

import sys

from farwrite.plugin.recipe import PACKAGE, recipe
from farwrite.plugin.wheel import find_wheel

plan = recipe(find_wheel())
flags = {"compile": plan.compile_flags, "link": plan.link_flags}[sys.argv[1]]
# What CMake decides, and Farwrite itself: what is fuzzed is this checkout, not what was installed.
left_out = ("-I", "-O", "-std", "-shared", "-l:libfarwrite.so", f"-L{PACKAGE}")
left_out += (f"-Wl,-rpath,{PACKAGE}",)
print(*(flag for flag in flags if not flag.startswith(left_out)), sep="\n")
