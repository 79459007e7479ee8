"""The benchmark of more machines: workers and servers in network namespaces, with shaped links."""
