"""``farwrite demo training``: one training job, first over stock gRPC and then over Farwrite.

A parameter server, two workers and a coordinator, all of them processes, train a network on
scikit-learn's digits. Both transports have the same seeds, order of batches and settings.
"""
