"""``farwrite demo``: one array, two processes, four ways to hand it over."""
