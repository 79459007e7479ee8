"""The machines of a run: network namespaces with shaped links, and what is read from tasks."""
