"""``farwrite bench peers``: point to point on one host, beside other libraries."""
