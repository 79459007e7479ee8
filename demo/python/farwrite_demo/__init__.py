"""``farwrite demo``: hands an array to another process, and a model to several; trains networks.

It uses only Farwrite's public API.
"""
