"""The commands: one module for each, or for a few of a kind; each says its options and hands over to what does the work.

Modules are imported where they are used, so that `devlint --version` and a clean file stay quick.
"""

HELP = {"help_option_names": ["-h", "--help"]}
