"""The program that moves bytes by UCX's own library, for ``bench peers``."""
